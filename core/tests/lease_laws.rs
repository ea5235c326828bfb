//! Leases against a naive list, and the law of waits.
#![allow(clippy::unwrap_used)] // helpers of tests

use proptest::prelude::*;
use redis_limiter_core::law::{Outcome, Usage};
use redis_limiter_core::lease::{
    Claim, ClaimError, Delta, LeaseSet, MAX_ID_BYTES, MAX_LEASES, Summary, View, apply,
};
use redis_limiter_core::units::{MAX_AMOUNT, MAX_DURATION_MS, MAX_INSTANT_US};
use redis_limiter_core::wire::{Invalid, Source};
use std::time::{Duration, Instant};

const START_US: u64 = 1_700_000_000_000_000;
const ADMIT_HELD: Result<Outcome, ClaimError> = Ok(Outcome::Admit { units: 0, wait_ms: 0 });

fn admit(units: u64) -> Result<Outcome, ClaimError> {
    Ok(Outcome::Admit { units, wait_ms: 0 })
}

fn refuse(retry_after_ms: i64) -> Result<Outcome, ClaimError> {
    Ok(Outcome::Refuse { retry_after_ms })
}

fn claim(id: &[u8], slots: u64, ttl_ms: u64) -> Claim<'_> {
    Claim { id: Some(id), slots, ttl_ms, nx: false }
}

/// Decides under `limit` and applies what follows, as a command does.
fn acquire(
    state: &mut Option<LeaseSet>,
    limit: u64,
    claim: &Claim,
    now_us: u64,
) -> Result<Outcome, ClaimError> {
    let view = View::new(state.as_ref(), now_us);
    let outcome = view.decide(limit, claim, 0, false);
    let delta = match outcome {
        Ok(Outcome::Admit { .. }) => view.charge(claim),
        _ => view.settle(),
    };
    if let Some(delta) = delta {
        apply(state, &delta, now_us).unwrap();
    }
    outcome
}

// ---- the naive model: a list of leases, looked through from end to end ----

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
                assert_eq!(delta.is_some(), call.slots > 0);
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
                let delta = self.view().renew(&id(*n), *ttl_ms);
                let held = self.naive.at(self.now_us).held(&id(*n));
                assert_eq!(delta.is_some(), held.is_some());
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

fn encode(set: &LeaseSet) -> Vec<u8> {
    let mut bytes = Vec::new();
    set.encode(&mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Result<LeaseSet, Invalid> {
    let mut source = Source::new(bytes);
    let set = LeaseSet::decode(&mut source)?;
    source.finish()?;
    Ok(set)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_a_list(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World { now_us: START_US, ..World::default() };
        steps.iter().for_each(|step| world.run(step));
    }

    /// The same leases, made in any order, are the same set with the same bytes.
    #[test]
    fn history_leaves_no_trace(
        leases in prop::collection::btree_map(0..200u8, (1..9u64, 1..50u64), 1..40),
        extra in prop::collection::vec(200..255u8, 0..40),
    ) {
        let hold = |id: u8, (slots, ttl_ms): (u64, u64)| Delta::Hold {
            id: [id].into(), slots, end_us: START_US + ttl_ms * 1000, new: true,
        };
        let (mut plain, mut other) = (None, None);
        for (&id, &lease) in &leases {
            apply(&mut plain, &hold(id, lease), START_US).unwrap();
        }
        for &id in &extra {
            apply(&mut other, &hold(id, (1, 7)), START_US).unwrap();
        }
        for (&id, &lease) in leases.iter().rev() {
            apply(&mut other, &hold(id, (3, 1)), START_US).unwrap();
            apply(&mut other, &hold(id, lease), START_US).unwrap();
        }
        let ids = extra.iter().map(std::slice::from_ref);
        if let (_, Some(delta)) = View::new(other.as_ref(), START_US).release(ids) {
            apply(&mut other, &delta, START_US).unwrap();
        }
        prop_assert_eq!(&plain, &other);
        prop_assert_eq!(encode(&plain.unwrap()), encode(&other.unwrap()));
    }

    /// Accepted bytes are exactly what encoding gives again, and such a set works.
    #[test]
    fn random_bytes_as_a_set(
        head in prop::collection::vec(0..3u8, 0..3),
        body in prop::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..24),
        now_us in 0..10u64,
    ) {
        let bytes = [head, body].concat();
        let mut source = Source::new(&bytes);
        if let Ok(set) = LeaseSet::decode(&mut source) {
            let again = encode(&set);
            prop_assert!(bytes.starts_with(&again));
            let (len, mut state) = (set.len(), Some(set));
            let outcome = acquire(&mut state, MAX_AMOUNT, &claim(b"new", 1, 1), now_us);
            prop_assert!(outcome.is_ok());
            prop_assert!(state.is_none_or(|set| set.len() <= len + 1));
        }
    }

    /// The same for deltas, which apply to any state or are refused without a trace.
    #[test]
    fn random_bytes_as_a_delta(
        kind in 0..5u8,
        body in prop::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..24),
        now_us in 0..300u64,
    ) {
        let bytes = [vec![kind], body].concat();
        let mut source = Source::new(&bytes);
        if let Ok(delta) = Delta::decode(&mut source) {
            let mut again = Vec::new();
            delta.encode(&mut again);
            prop_assert!(bytes.starts_with(&again));
            let mut state = None;
            acquire(&mut state, 5, &claim(&[1], 2, 1), 150).unwrap();
            let before = state.clone();
            if apply(&mut state, &delta, now_us).is_err() {
                prop_assert_eq!(&state, &before);
            }
            if let Some(set) = &state {
                prop_assert_eq!(&decode(&encode(set)).unwrap(), set);
            }
        }
    }
}

#[test]
fn a_dead_holder_frees_its_slots_at_its_ttl() {
    let mut state = None;
    assert_eq!(acquire(&mut state, 2, &claim(b"dead", 2, 30_000), START_US + 1), admit(2));
    assert_eq!(acquire(&mut state, 2, &claim(b"next", 1, 1000), START_US + 2), refuse(30_000));
    let end_us = START_US + 1 + 30_000_000;
    assert_eq!(acquire(&mut state, 2, &claim(b"next", 2, 1000), end_us - 1), refuse(1));
    assert_eq!(
        View::new(state.as_ref(), end_us - 1).renew(b"dead", 1).map(|d| d.grows()),
        Some(false)
    );
    assert_eq!(View::new(state.as_ref(), end_us).renew(b"dead", 1), None);
    assert_eq!(View::new(state.as_ref(), end_us).release([&b"dead"[..]]), (0, None));
    assert_eq!(View::new(state.as_ref(), end_us).summary(), None);
    assert_eq!(acquire(&mut state, 2, &claim(b"next", 2, 1000), end_us), admit(2));
    assert_eq!(state.as_ref().map(LeaseSet::len), Some(1));
}

#[test]
fn a_held_id_keeps_its_slots() {
    let mut state = None;
    acquire(&mut state, 5, &claim(b"a", 3, 10), START_US).unwrap();
    acquire(&mut state, 5, &claim(b"b", 2, 20), START_US).unwrap();
    // Renewed, not charged twice, also above a lowered limit and whatever must be left.
    assert_eq!(acquire(&mut state, 1, &claim(b"a", 3, 15), START_US + 1000), ADMIT_HELD);
    let view = View::new(state.as_ref(), START_US + 1000);
    assert_eq!(view.used(), 5);
    assert_eq!(view.decide(5, &claim(b"a", 3, 1), 5, false), ADMIT_HELD);
    assert_eq!(view.wait_us(2), 15_000);
    // Another count, NX, a blocked plan, and one who only asks.
    assert_eq!(view.decide(9, &claim(b"a", 2, 1), 0, false), Err(ClaimError::OtherCount));
    assert_eq!(view.decide(9, &claim(b"a", 2, 1), 0, true), Err(ClaimError::OtherCount));
    assert_eq!(view.decide(0, &claim(b"a", 3, 1), 0, false), refuse(-1));
    assert_eq!(view.decide(0, &claim(b"a", 3, 1), 0, true), ADMIT_HELD);
    assert_eq!(view.decide(4, &claim(b"a", 0, 1), 0, false), refuse(15));
    assert_eq!(view.charge(&claim(b"a", 0, 1)), None);
    let nx = |id, slots, limit| {
        let claim = Claim { id: Some(id), slots, ttl_ms: 1, nx: true };
        view.decide(limit, &claim, 0, false)
    };
    assert_eq!(nx(b"a", 3, 9), refuse(15)); // its own end
    assert_eq!(nx(b"a", 3, 3), refuse(19)); // room, later than its end
    assert_eq!(nx(b"b", 2, 9), refuse(19));
    assert_eq!(nx(b"a", 3, 2), refuse(-1));
    assert_eq!(nx(b"c", 3, 9), admit(3));
    // A holder without an id, and FORCE.
    let peek = Claim { id: None, slots: 1, ttl_ms: 1, nx: false };
    assert_eq!(view.decide(5, &peek, 0, false), refuse(15));
    assert_eq!(view.decide(6, &peek, 0, false), admit(1));
    assert_eq!(view.decide(0, &peek, 0, true), admit(1));
    assert_eq!(view.charge(&peek), None);
    let most = claim(b"c", MAX_AMOUNT, 1);
    assert_eq!(view.decide(1, &most, 0, true), Err(ClaimError::Overflow));
}

#[test]
fn release_counts_what_was_held_once() {
    let mut state = None;
    acquire(&mut state, 5, &claim(b"a", 1, 10), START_US).unwrap();
    acquire(&mut state, 5, &claim(b"b", 1, 20), START_US).unwrap();
    let ids: [&[u8]; 5] = [b"b", b"stranger", b"a", b"b", b""];
    let (count, delta) = View::new(state.as_ref(), START_US + 10_000).release(ids);
    assert_eq!(count, 1); // a is over
    assert_eq!(delta, Some(Delta::Release(vec![b"b"[..].into()])));
    apply(&mut state, &delta.unwrap(), START_US + 10_000).unwrap();
    assert_eq!(state, None);
}

#[test]
fn the_clock_rule_moves_all_back() {
    let mut state = None;
    acquire(&mut state, 3, &claim(b"a", 1, 1000), START_US).unwrap();
    acquire(&mut state, 3, &claim(b"b", 2, 10), START_US + 5000).unwrap();
    let back_us = START_US - 3_600_000_000;
    let view = View::new(state.as_ref(), back_us);
    assert_eq!((view.used(), view.wait_us(1), view.reset_us()), (3, 10_000, 995_000));
    assert_eq!(view.settle(), Some(Delta::Settle));
    // A refusal moves them too, once.
    assert_eq!(acquire(&mut state, 3, &claim(b"c", 1, 10), back_us), refuse(10));
    assert_eq!(state.as_ref().unwrap().end_us(), back_us + 995_000);
    let view = View::new(state.as_ref(), back_us + 10_000);
    assert_eq!((view.used(), view.settle()), (1, None));
    // A time before 1970 plus a ttl, and one after the last instant, are no trouble.
    assert_eq!(acquire(&mut state, 3, &claim(b"a", 1, MAX_DURATION_MS), 0), ADMIT_HELD);
    assert_eq!(View::new(state.as_ref(), 0).reset_us(), MAX_DURATION_MS * 1000);
    acquire(&mut state, 3, &claim(b"z", 1, MAX_DURATION_MS), u64::MAX).unwrap();
    let last_us = MAX_INSTANT_US + MAX_DURATION_MS * 1000;
    assert_eq!(state.as_ref().unwrap().end_us(), last_us);
    assert_eq!(decode(&encode(state.as_ref().unwrap())).as_ref(), Ok(state.as_ref().unwrap()));
}

#[test]
fn what_no_call_could_have_stored_is_invalid() {
    let good = [9, 2, 1, 1, 1, b'a', 0, 2, 1, b'b']; // newest 9; a: end 10, 1 slot; b: end 10, 2
    assert!(decode(&good).is_ok());
    for (at, byte) in [(1, 1), (1, 3), (2, 0), (3, 0), (4, 0), (5, b'b'), (5, b'c'), (7, 0)] {
        let mut bad = good;
        bad[at] = byte;
        assert_eq!(decode(&bad), Err(Invalid), "byte {at} as {byte}");
    }
    assert_eq!(decode(&[9, 0]), Err(Invalid)); // empty
    assert_eq!(decode(&[9, 2, 1, 1, 1, b'a', 1, 1, 1, b'a']), Err(Invalid)); // one id twice
    let with = |end_after_us: u64, slots: [u64; 2]| {
        use redis_limiter_core::wire::Sink;
        let mut bytes = vec![9, 2];
        for (gap_us, slots, id) in [(1, slots[0], b"a"), (end_after_us - 1, slots[1], b"b")] {
            bytes.put_int(gap_us);
            bytes.put_int(slots);
            bytes.put_bytes(id);
        }
        decode(&bytes)
    };
    assert!(with(MAX_DURATION_MS * 1000, [1, MAX_AMOUNT - 1]).is_ok());
    assert_eq!(with(MAX_DURATION_MS * 1000 + 1, [1, 1]), Err(Invalid));
    assert_eq!(with(2, [2, MAX_AMOUNT - 1]), Err(Invalid));
}

#[test]
fn what_no_call_could_have_decided_is_not_applied() {
    let mut state = None;
    acquire(&mut state, 5, &claim(b"a", 1, 10), START_US).unwrap();
    let before = state.clone();
    let mut try_hold = |id: &[u8], slots: u64, end_us: u64| {
        let delta = Delta::Hold { id: id.into(), slots, end_us, new: true };
        let result = apply(&mut state, &delta, START_US + 1);
        if result.is_err() {
            assert_eq!(state, before);
        }
        state.clone_from(&before);
        result
    };
    let (start_us, max_us) = (START_US + 1, START_US + 1 + MAX_DURATION_MS * 1000);
    assert_eq!(try_hold(b"b", 1, start_us), Err(Invalid));
    assert_eq!(try_hold(b"b", 1, max_us + 1), Err(Invalid));
    assert_eq!(try_hold(b"b", 0, max_us), Err(Invalid));
    assert_eq!(try_hold(b"b", MAX_AMOUNT, max_us), Err(Invalid));
    assert_eq!(try_hold(b"", 1, max_us), Err(Invalid));
    assert_eq!(try_hold(&[7; MAX_ID_BYTES + 1], 1, max_us), Err(Invalid));
    assert_eq!(try_hold(&[7; MAX_ID_BYTES], MAX_AMOUNT - 1, max_us), Ok(()));
    assert_eq!(try_hold(b"a", MAX_AMOUNT, max_us), Ok(())); // instead of its 1 slot
}

// ---- many leases ----

/// `count` leases of 1 slot; the n-th in a scattered order ends n ms after it began.
fn many(count: usize) -> Option<LeaseSet> {
    let mut state = None;
    for n in 0..count {
        let ttl_ms = (n * 40_503) % count + 1; // 40503 is odd: each once when count is a power of 2
        let id = (n as u64).to_be_bytes();
        let delta = View::new(state.as_ref(), START_US).charge(&claim(&id, 1, ttl_ms as u64));
        apply(&mut state, &delta.unwrap(), START_US).unwrap();
    }
    state
}

#[test]
fn a_full_set() {
    let mut state = many(MAX_LEASES);
    let full = MAX_LEASES as u64;
    let new = claim(b"new", 1, 1000);
    // Room by the limit, but not for one more lease until the first ends; then by both.
    let view = View::new(state.as_ref(), START_US);
    assert_eq!(view.decide(MAX_AMOUNT, &new, 0, false), refuse(1));
    assert_eq!(view.decide(1000, &new, 0, false), refuse(full as i64 - 999));
    assert_eq!(view.decide(1000, &new, 1000, false), refuse(-1));
    assert_eq!(view.decide(MAX_AMOUNT, &new, 0, true), Err(ClaimError::Full));
    assert_eq!(view.decide(MAX_AMOUNT, &claim(b"new", 0, 1), 0, false), admit(0));
    assert_eq!(view.decide(MAX_AMOUNT, &claim(&0u64.to_be_bytes(), 1, 1), 0, true), ADMIT_HELD);
    let forged = view.charge(&new).unwrap();
    let before = state.clone();
    assert_eq!(apply(&mut state, &forged, START_US), Err(Invalid));
    assert_eq!(state, before);
    let set = before.unwrap();
    assert_eq!(decode(&encode(&set)), Ok(set));
    // At the end of the first lease, and not 1 µs earlier.
    assert_eq!(acquire(&mut state, MAX_AMOUNT, &new, START_US + 999), refuse(1));
    assert_eq!(acquire(&mut state, MAX_AMOUNT, &new, START_US + 1000), admit(1));
    assert_eq!(state.as_ref().map(LeaseSet::len), Some(MAX_LEASES));
    // Memory comes back.
    let full_bytes = state.as_ref().map_or(0, LeaseSet::heap_bytes);
    let late_us = START_US + (full - 10) * 1000;
    assert_eq!(acquire(&mut state, MAX_AMOUNT, &new, late_us), admit(1));
    assert_eq!(state.as_ref().map(LeaseSet::len), Some(11));
    assert!(state.as_ref().map_or(0, LeaseSet::heap_bytes) < full_bytes / 50);
}

/// The best of several runs, so that a busy machine does not matter.
fn best_time(mut run: impl FnMut()) -> Duration {
    let once = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..20).map(|_| once(&mut run)).min().unwrap()
}

#[test]
fn a_call_does_not_look_at_every_lease() {
    let sets = [1024, MAX_LEASES].map(many);
    let compare = |what: &str, run: &dyn Fn(&Option<LeaseSet>, u64)| {
        let [few, all] = sets.each_ref().map(|set| {
            let len = set.as_ref().map_or(0, LeaseSet::len) as u64;
            best_time(|| (0..16).for_each(|n| run(set, n * len / 16)))
        });
        // A scan would take 64 times as long.
        assert!(all < few * 20, "{what}: {few:?} for 1,024 leases, {all:?} for 65,536");
    };
    compare("wait", &|set, target| {
        assert!(View::new(set.as_ref(), START_US).wait_us(target) > 0);
    });
    compare("what is over", &|set, over| {
        let view = View::new(set.as_ref(), START_US + over * 1000);
        assert_eq!(view.used(), set.as_ref().map_or(0, LeaseSet::len) as u64 - over);
    });
    compare("renew", &|set, n| {
        let view = View::new(set.as_ref(), START_US);
        assert!(view.renew(&n.to_be_bytes(), 1).is_some());
    });
}
