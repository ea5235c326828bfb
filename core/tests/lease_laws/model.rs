//! Random calls against a naive list of leases, and the law of waits.

use crate::{START_US, decode, encode};
use proptest::prelude::*;
use redis_limiter_core::law::{Outcome, Usage};
use redis_limiter_core::lease::{Claim, ClaimError, Delta, LeaseSet, Summary, View, apply};
use redis_limiter_core::units::MAX_DURATION_MS;
use redis_limiter_core::wire::Source;

/// All the leases, looked through from end to end.
#[derive(Clone, Debug, Default, PartialEq)]
struct Naive {
    newest_us: u64,
    leases: Vec<(u64, Vec<u8>, u64)>, // end, id, slots
}

impl Naive {
    /// The list as a call at `now_us` sees it: moved back by the clock rule, what is over dropped.
    fn at(&self, now_us: u64) -> Self {
        let back_us = self.newest_us.saturating_sub(now_us);
        let mut leases = self.leases.clone();
        leases.iter_mut().for_each(|lease| lease.0 -= back_us);
        leases.retain(|lease| lease.0 > now_us);
        leases.sort();
        Self { newest_us: self.newest_us - back_us, leases }
    }

    fn used(&self) -> u64 {
        self.leases.iter().map(|lease| lease.2).sum()
    }

    fn held(&self, id: &[u8]) -> Option<u64> {
        self.leases.iter().find(|lease| lease.1 == id).map(|lease| lease.2)
    }

    /// Units charged if the call is admitted at this very instant; `self` is as seen then.
    fn admits(&self, call: &Call) -> Option<u64> {
        let held = if call.slots > 0 { self.held(&call.id()) } else { None };
        let fits =
            call.force || (call.limit > 0 && self.used() + call.slots + call.leave <= call.limit);
        match held {
            Some(_) if call.nx => None,
            Some(_) if call.limit > 0 || call.force => Some(0),
            None if fits => Some(call.slots),
            _ => None,
        }
    }

    fn hold(&mut self, id: Vec<u8>, slots: u64, ttl_ms: u64, now_us: u64) {
        self.leases.retain(|lease| lease.1 != id);
        self.leases.push((now_us + ttl_ms * 1000, id, slots));
        self.newest_us = now_us;
    }
}

#[derive(Clone, Debug)]
struct Call {
    id: u8,
    slots: u64,
    ttl_ms: u64,
    limit: u64,
    leave: u64,
    nx: bool,
    force: bool,
}

impl Call {
    fn id(&self) -> Vec<u8> {
        id(self.id)
    }
}

fn id(n: u8) -> Vec<u8> {
    vec![n; 1 + usize::from(n % 3)]
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(Call),
    Release(Vec<u8>),
    Renew { id: u8, ttl_ms: u64 },
    Clock { by_us: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    let call = (0..12u8, 0..4u64, 1..40u64, 0..14u64, 0..3u64, 0..4u8, 0..8u8);
    prop_oneof![
        8 => call.prop_map(|(id, slots, ttl_ms, limit, leave, nx, force)| {
            Step::Acquire(Call { id, slots, ttl_ms, limit, leave, nx: nx == 0, force: force == 0 })
        }),
        2 => prop::collection::vec(0..12u8, 1..5).prop_map(Step::Release),
        2 => (0..12u8, 1..40u64).prop_map(|(id, ttl_ms)| Step::Renew { id, ttl_ms }),
        4 => (0..9_000i64).prop_map(|by_us| Step::Clock { by_us }),
        2 => (0..9i64).prop_map(|by_ms| Step::Clock { by_us: by_ms * 1000 }),
        1 => (-50_000..0i64).prop_map(|by_us| Step::Clock { by_us }),
    ]
}

/// The primary, its replica fed with encoded deltas, and the naive list.
#[derive(Default)]
struct World {
    primary: Option<LeaseSet>,
    replica: Option<LeaseSet>,
    naive: Naive,
    now_us: u64,
}

impl World {
    fn view(&self) -> View<'_> {
        View::new(self.primary.as_ref(), self.now_us)
    }

    fn apply(&mut self, delta: Option<Delta>) {
        let Some(delta) = delta else { return };
        self.naive = self.naive.at(self.now_us);
        let held = match &delta {
            Delta::Hold { id, .. } => self.naive.held(id).is_some(),
            _ => true,
        };
        assert_eq!(delta.grows(), !held);
        apply(&mut self.primary, &delta, self.now_us).unwrap();
        let mut bytes = Vec::new();
        delta.encode(&mut bytes);
        let mut source = Source::new(&bytes);
        let decoded = Delta::decode(&mut source).unwrap();
        source.finish().unwrap();
        assert_eq!(decoded, delta);
        apply(&mut self.replica, &decoded, self.now_us).unwrap();
    }

    /// A renewal that was left out would not have changed a byte.
    fn is_so(&self, id: &[u8], slots: u64, ttl_ms: u64) {
        let end_us = self.now_us + ttl_ms * 1000;
        let hold = Delta::Hold { id: id.into(), slots, end_us, new: false };
        let mut same = self.primary.clone();
        apply(&mut same, &hold, self.now_us).unwrap();
        assert_eq!(same, self.primary);
    }

    fn acquire(&mut self, call: &Call) {
        let (id, seen) = (call.id(), self.naive.at(self.now_us));
        let claim = Claim { id: Some(&id), slots: call.slots, ttl_ms: call.ttl_ms, nx: call.nx };
        let view = self.view();
        let outcome = view.decide(call.limit, &claim, call.leave, call.force);
        let other_count = seen.held(&id).is_some_and(|slots| slots != call.slots);
        if call.slots > 0 && other_count && !call.nx && (call.limit > 0 || call.force) {
            assert_eq!(outcome, Err(ClaimError::OtherCount));
            return;
        }
        let settle = view.settle();
        match outcome.unwrap() {
            Outcome::Admit { units, wait_ms } => {
                assert_eq!((Some(units), wait_ms), (seen.admits(call), 0));
                let delta = view.charge(&claim);
                match seen.held(&id) {
                    Some(slots) if call.slots > 0 && delta.is_none() => {
                        self.is_so(&id, slots, call.ttl_ms);
                    }
                    _ => assert_eq!(delta.is_some(), call.slots > 0),
                }
                self.apply(delta.or(settle));
                if call.slots > 0 {
                    self.naive.hold(id, call.slots, call.ttl_ms, self.now_us);
                }
            }
            Outcome::Refuse { retry_after_ms } => {
                assert_eq!(seen.admits(call), None);
                self.apply(settle);
                self.law(call, &claim, retry_after_ms);
            }
        }
    }

    /// The refused call succeeds `retry_after_ms` later, and at no earlier whole millisecond.
    fn law(&self, call: &Call, claim: &Claim, retry_after_ms: i64) {
        let admits = |after_ms: u64| {
            let at_us = self.now_us + after_ms * 1000;
            let outcome = View::new(self.primary.as_ref(), at_us)
                .decide(call.limit, claim, call.leave, call.force);
            let admitted = matches!(outcome, Ok(Outcome::Admit { .. }));
            assert_eq!(admitted, self.naive.at(at_us).admits(call).is_some());
            admitted
        };
        let Ok(retry_after_ms) = u64::try_from(retry_after_ms) else {
            assert_eq!(retry_after_ms, -1);
            assert!(!admits(MAX_DURATION_MS));
            assert!(call.limit == 0 || call.slots + call.leave > call.limit);
            return;
        };
        assert!(retry_after_ms > 0);
        assert!(admits(retry_after_ms));
        assert!((0..retry_after_ms).all(|after_ms| !admits(after_ms)));
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Acquire(call) => self.acquire(call),
            Step::Release(ids) => {
                let ids: Vec<Vec<u8>> = ids.iter().map(|&n| id(n)).collect();
                let seen = self.naive.at(self.now_us);
                let (count, delta) = self.view().release(ids.iter().map(Vec::as_slice));
                assert_eq!(count, seen.leases.iter().filter(|l| ids.contains(&l.1)).count());
                assert_eq!(delta.is_some(), count > 0);
                self.apply(delta.or_else(|| self.view().settle()));
                if count > 0 {
                    self.naive.leases.retain(|lease| !ids.contains(&lease.1));
                }
            }
            Step::Renew { id: n, ttl_ms } => {
                let (count, delta) = self.view().renew(&id(*n), *ttl_ms);
                let held = self.naive.at(self.now_us).held(&id(*n));
                assert_eq!(count > 0, held.is_some());
                if let (Some(slots), None) = (held, &delta) {
                    self.is_so(&id(*n), slots, *ttl_ms);
                }
                self.apply(delta.or_else(|| self.view().settle()));
                if let Some(slots) = held {
                    self.naive.hold(id(*n), slots, *ttl_ms, self.now_us);
                }
            }
            Step::Clock { by_us } => self.now_us = self.now_us.saturating_add_signed(*by_us),
        }
        self.check();
    }

    fn check(&self) {
        let (view, seen) = (self.view(), self.naive.at(self.now_us));
        assert_eq!(self.primary, self.replica);
        assert_eq!(view.used(), seen.used());
        assert_eq!(view.holders(), seen.leases.len());
        assert_eq!(
            view.settle().is_some(),
            self.naive.newest_us > self.now_us && !seen.leases.is_empty()
        );
        let last_us = seen.leases.last().map_or(0, |lease| lease.0 - self.now_us);
        assert_eq!(view.reset_us(), last_us);
        for target in 0..=seen.used() + 1 {
            let mut ends = seen.leases.iter().map(|lease| lease.0 - self.now_us);
            let used_after = |us| -> u64 {
                seen.leases.iter().filter(|l| l.0 - self.now_us > us).map(|l| l.2).sum()
            };
            let first = if seen.used() <= target {
                Some(0)
            } else {
                ends.find(|&us| used_after(us) <= target)
            };
            assert_eq!(Some(view.wait_us(target)), first);
        }
        let summary = seen.leases.first().map(|first| Summary {
            holders: seen.leases.len() as u64,
            slots: seen.used(),
            next_end_ms: first.0.div_ceil(1000),
        });
        assert_eq!(view.summary(), summary);
        if let Some(set) = &self.primary {
            assert!(!set.is_empty());
            assert_eq!(&decode(&encode(set)).unwrap(), set);
            assert!(set.heap_bytes() > set.len() * 40);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_a_list(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World { now_us: START_US, ..World::default() };
        steps.iter().for_each(|step| world.run(step));
    }
}
