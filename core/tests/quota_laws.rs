//! The laws of calendar quotas, over random calls whose zone, anchor and clock change under way.

// Outside #[test] functions too, a test that cannot go on panics, and numbers are small.
#![allow(clippy::unwrap_used, clippy::cast_sign_loss, clippy::cast_possible_truncation)]

use proptest::prelude::*;
use redis_limiter_core::calendar::{Anchor, Calendar, Period, Zone};
use redis_limiter_core::law::{Ask, Charging, Outcome, Usage, decide, verdict};
use redis_limiter_core::quota::{Delta, Quota, View, apply};
use redis_limiter_core::units::{MAX_AMOUNT, MAX_INSTANT_US};
use redis_limiter_core::wire::{Invalid, Source};

const HOUR_US: u64 = 3_600_000_000;
const YEAR_US: u64 = 365 * 24 * HOUR_US;
const BASE_US: u64 = 1_709_900_000_000_000; // March 2024, close to changes of clocks

/// A server's side of one quota, with a replica that sees nothing but encoded deltas.
struct Server {
    calendar: Calendar,
    period: Period,
    state: Option<Quota>,
    replica: Option<Quota>,
}

impl Server {
    fn new(period: Period) -> Self {
        Self { calendar: Calendar::new(), period, state: None, replica: None }
    }

    fn view(&mut self, place: Place, now_us: u64) -> View {
        let (zone, anchor) = place.resolve(&mut self.calendar, self.period);
        let (calendar, period) = (&mut self.calendar, self.period);
        View::new(self.state.as_ref(), || calendar.bounds(&zone, period, anchor, now_us), now_us)
    }

    fn commit(&mut self, delta: Delta, now_us: u64) {
        apply(&mut self.state, &delta, now_us).unwrap();
        let mut bytes = Vec::new();
        delta.encode(&mut bytes);
        let mut source = Source::new(&bytes);
        let received = Delta::decode(&mut source).unwrap();
        source.finish().unwrap();
        apply(&mut self.replica, &received, now_us).unwrap();
        assert_eq!(self.state, self.replica);
    }

    fn take(&mut self, place: Place, limit: u64, ask: &Ask, now_us: u64) -> Outcome {
        let view = self.view(place, now_us);
        let outcome = decide(&view, limit, ask).unwrap();
        if let Outcome::Admit { units, .. } = outcome
            && units > 0
        {
            self.commit(view.charge(units), now_us);
        }
        outcome
    }
}

/// Where a call says its tenant lives, and its anchor if the period has one.
#[derive(Clone, Copy, Debug)]
struct Place(usize, u8);

impl Place {
    fn resolve(self, calendar: &mut Calendar, period: Period) -> (Zone, Anchor) {
        const ZONES: [&[u8]; 5] = [
            b"UTC",
            b"America/New_York",
            b"Pacific/Kiritimati",
            b"Asia/Kathmandu",
            b"Australia/Lord_Howe",
        ];
        let anchor = match period {
            Period::Week => ["mon", "wed", "sun"][usize::from(self.1) % 3].to_owned(),
            _ => self.1.to_string(),
        };
        let anchor = Anchor::parse(period, anchor.as_bytes()).unwrap_or_default();
        (calendar.zone(ZONES[self.0]).unwrap(), anchor)
    }
}

fn place() -> impl Strategy<Value = Place> {
    (0..5usize, 1..=31u8).prop_map(|(zone, anchor)| Place(zone, anchor))
}

fn period() -> impl Strategy<Value = Period> {
    (0..6u8).prop_map(|code| Period::from_code(code).unwrap())
}

/// How far the clock moves before a call, also backwards.
fn step_us() -> impl Strategy<Value = i64> {
    let (hour, year) = (HOUR_US as i64, YEAR_US as i64);
    prop_oneof![
        6 => 0..2 * hour,
        3 => 0..40 * 24 * hour,
        1 => prop_oneof![Just(hour), Just(-hour), Just(year), Just(-year)],
        1 => -3 * hour..0,
    ]
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Take(u64),
    UpTo(u64),
    Force(u64),
    Refund(u64, u64),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => (0..8u64).prop_map(Call::Take),
        2 => (1..8u64).prop_map(Call::UpTo),
        1 => (0..8u64).prop_map(Call::Force),
        1 => (0..8u64, 0..3 * HOUR_US).prop_map(|(units, age_us)| Call::Refund(units, age_us)),
    ]
}

/// The rules once more, as plainly as they can be said.
#[derive(Default)]
struct Naive(Option<(u64, u64, u64)>);

impl Naive {
    /// (start, end, used), all times in ms.
    fn seen(&self, fresh: (u64, u64), now_us: u64) -> (u64, u64, u64) {
        match self.0 {
            Some(stored)
                if now_us < stored.1 * 1000
                    && stored.0 * 1000 <= now_us + (stored.1 - stored.0) * 1000 =>
            {
                stored
            }
            _ => (fresh.0, fresh.1, 0),
        }
    }

    fn store(&mut self, (start, end, used): (u64, u64, u64)) {
        self.0 = (used > 0).then_some((start, end, used));
    }
}

proptest! {
    #[test]
    fn agrees_with_the_plain_rules(
        period in period(),
        limit in 0..20u64,
        calls in prop::collection::vec((step_us(), place(), call()), 1..60),
    ) {
        let (mut server, mut naive) = (Server::new(period), Naive::default());
        let mut now_us = BASE_US;
        for (step, place, call) in calls {
            now_us = now_us.saturating_add_signed(step);
            let (zone, anchor) = place.resolve(&mut server.calendar, period);
            let fresh = server.calendar.bounds(&zone, period, anchor, now_us);
            let (start, end, used) = naive.seen(fresh, now_us);
            let view = server.view(place, now_us);
            let before = server.state;
            prop_assert_eq!((view.used(), view.reset_us()), (used, end * 1000 - now_us));
            prop_assert_eq!(view.settle(), None);
            let fits = |cost: u64| limit > 0 && used + cost <= limit;
            let charged = match call {
                Call::Take(cost) if fits(cost) => cost,
                Call::UpTo(cost) if fits(1) => cost.min(limit - used),
                Call::Force(cost) => cost,
                _ => 0,
            };
            match call {
                Call::Take(cost) => {
                    let outcome = server.take(place, limit, &Ask::whole(cost), now_us);
                    prop_assert_eq!(matches!(outcome, Outcome::Admit { .. }), fits(cost));
                }
                Call::UpTo(cost) => {
                    let ask = Ask { cost, leave: 0, charging: Charging::UpTo };
                    server.take(place, limit, &ask, now_us);
                }
                Call::Force(cost) => {
                    let ask = Ask { cost, leave: 0, charging: Charging::Force };
                    server.take(place, limit, &ask, now_us);
                }
                Call::Refund(units, age_us) => {
                    let same_period = age_us == 0 || start * 1000 <= now_us - age_us;
                    let changes = used > 0 && units > 0 && same_period;
                    let delta = view.refund(units, age_us);
                    prop_assert_eq!(delta.is_some(), changes);
                    if let Some(delta) = delta {
                        server.commit(delta, now_us);
                        naive.store((start, end, used.saturating_sub(units)));
                    }
                }
            }
            if charged > 0 {
                naive.store((start, end, used + charged));
            } else if !matches!(call, Call::Refund(..)) {
                prop_assert_eq!(server.state, before, "a call that charges nothing changes nothing");
            }
            let stored = server.state.map(|quota| (quota.start_ms(), quota.end_ms(), quota.used()));
            prop_assert_eq!(stored, naive.0);
        }
    }

    /// Whatever zones and anchors the calls give, and however the clock steps: what was admitted
    /// under one stored period never exceeds the limit, and a new period opens only when the stored
    /// one is over or void.
    #[test]
    fn never_more_than_the_limit_per_stored_period(
        period in period(),
        limit in 1..20u64,
        calls in prop::collection::vec((step_us(), place(), 1..8u64, any::<bool>()), 1..80),
    ) {
        let mut server = Server::new(period);
        let mut now_us = BASE_US;
        let mut admitted = 0;
        for (step, place, cost, up_to) in calls {
            now_us = now_us.saturating_add_signed(step);
            let before = server.state;
            let charging = if up_to { Charging::UpTo } else { Charging::Whole };
            let outcome = server.take(place, limit, &Ask { cost, leave: 0, charging }, now_us);
            let (Outcome::Admit { units, .. }, Some(after)) = (outcome, server.state) else { continue };
            let same = before.filter(|before| {
                (before.start_ms(), before.end_ms()) == (after.start_ms(), after.end_ms())
            });
            if let Some(before) = before.filter(|_| same.is_none()) {
                let (start_us, end_us) = (before.start_ms() * 1000, before.end_ms() * 1000);
                prop_assert!(end_us <= now_us || start_us > now_us + (end_us - start_us));
            }
            admitted = if same.is_some() { admitted + units } else { units };
            prop_assert!(admitted <= limit);
        }
    }

    /// Within a stored period no other zone or anchor gives a single unit more.
    #[test]
    fn changing_the_zone_opens_no_second_quota(
        period in period(),
        limit in 1..100u64,
        off_us in 0..YEAR_US,
        first in place(),
        others in prop::collection::vec((place(), 0.0..1.0f64), 1..10),
    ) {
        let mut server = Server::new(period);
        let now_us = BASE_US + off_us;
        server.take(first, limit, &Ask::whole(limit), now_us);
        let end_us = server.state.unwrap().end_ms() * 1000;
        for (place, part) in others {
            let later_us = now_us + ((end_us - now_us) as f64 * part) as u64;
            let later_us = later_us.min(end_us - 1);
            let retry_after_ms = i64::try_from((end_us - later_us).div_ceil(1000)).unwrap();
            let outcome = server.take(place, limit, &Ask::whole(1), later_us);
            prop_assert_eq!(outcome, Outcome::Refuse { retry_after_ms });
            let view = server.view(place, later_us);
            let answer = verdict(&view, limit, Charging::Whole, outcome);
            prop_assert_eq!(answer.integers(), [0, limit as i64, 0, retry_after_ms, retry_after_ms]);
        }
        // At its end the zone of the present call takes effect.
        let (zone, anchor) = first.resolve(&mut server.calendar, period);
        let bounds = server.calendar.bounds(&zone, period, anchor, end_us);
        server.take(first, limit, &Ask::whole(1), end_us);
        let stored = server.state.unwrap();
        prop_assert_eq!((stored.start_ms(), stored.end_ms(), stored.used()), (bounds.0, bounds.1, 1));
    }

    /// The same call `retry_after_ms` later succeeds, 1 ms earlier it is refused.
    #[test]
    fn waits_are_exact(
        quota in quota(),
        place in place(),
        ahead_us in -(YEAR_US as i64)..YEAR_US as i64,
        limit in 0..=MAX_AMOUNT,
        (cost, leave) in (0..=MAX_AMOUNT, 0..4u64),
    ) {
        let mut server = Server::new(Period::Day);
        server.state = Some(quota);
        let now_us = (quota.end_ms() * 1000).saturating_add_signed(-ahead_us).min(MAX_INSTANT_US);
        let ask = Ask { cost: cost % (limit / 2 + 2), leave, charging: Charging::Whole };
        let mut at = |at_us| decide(&server.view(place, at_us), limit, &ask).unwrap();
        match at(now_us) {
            Outcome::Admit { units, wait_ms } => prop_assert_eq!((units, wait_ms), (ask.cost, 0)),
            Outcome::Refuse { retry_after_ms: -1 } => {
                prop_assert!(limit == 0 || ask.cost + leave > limit);
            }
            Outcome::Refuse { retry_after_ms } => {
                let wait_us = retry_after_ms as u64 * 1000;
                let admitted = Outcome::Admit { units: ask.cost, wait_ms: 0 };
                prop_assert_eq!(at(now_us + wait_us), admitted);
                let refused = matches!(at(now_us + wait_us - 1000), Outcome::Refuse { .. });
                prop_assert!(refused);
            }
        }
    }

    #[test]
    fn undoing_a_charge_leaves_no_trace(
        period in period(),
        before in prop::option::of((place(), 1..100u64)),
        place in place(),
        units in 1..100u64,
        step in step_us(),
    ) {
        let mut server = Server::new(period);
        if let Some((place, units)) = before {
            server.take(place, MAX_AMOUNT, &Ask::whole(units), BASE_US);
        }
        let now_us = BASE_US.saturating_add_signed(step);
        let state = server.state.filter(|quota| !quota.has_ended(now_us));
        server.take(place, MAX_AMOUNT, &Ask::whole(units), now_us);
        let delta = server.view(place, now_us).refund(units, 0).unwrap();
        server.commit(delta, now_us);
        prop_assert_eq!(server.state, state);
    }

    #[test]
    fn encodings_round_trip(quota in quota()) {
        let mut bytes = Vec::new();
        quota.encode(&mut bytes);
        prop_assert!(bytes.len() <= 8 + 7 + 5);
        let mut source = Source::new(&bytes);
        prop_assert_eq!(Quota::decode(&mut source), Ok(quota));
        prop_assert_eq!(source.finish(), Ok(()));
        for len in 0..bytes.len() {
            prop_assert_eq!(Quota::decode(&mut Source::new(&bytes[..len])), Err(Invalid));
        }
    }

    #[test]
    fn accepted_bytes_have_one_form(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..24),
        prop::collection::vec(prop_oneof![0x80..=0xffu8, 0..4u8], 0..24),
    ]) {
        let mut again = Vec::new();
        if let Ok(quota) = Quota::decode(&mut Source::new(&bytes)) {
            quota.encode(&mut again);
            prop_assert!(quota.start_ms() < quota.end_ms() && (1..=MAX_AMOUNT).contains(&quota.used()));
            prop_assert!(bytes.starts_with(&again));
        }
        let mut again = Vec::new();
        if let Ok(delta) = Delta::decode(&mut Source::new(&bytes)) {
            delta.encode(&mut again);
            prop_assert!(bytes.starts_with(&again));
            apply(&mut None, &delta, 1 << 50).unwrap();
        }
    }
}

/// Any quota that decodes.
fn quota() -> impl Strategy<Value = Quota> {
    let start_ms = prop_oneof![BASE_US / 1000..2 * BASE_US / 1000, 0..=MAX_INSTANT_US / 1000];
    let length_ms = prop_oneof![Just(60_000), Just(86_400_000), 1..=367 * 86_400_000u64];
    let used = prop_oneof![1..100u64, 1..=MAX_AMOUNT];
    (used, start_ms, length_ms)
        .prop_map(|(used, start_ms, length_ms)| decoded(used, start_ms, length_ms).unwrap())
}

fn decoded(used: u64, start_ms: u64, length_ms: u64) -> Result<Quota, Invalid> {
    use redis_limiter_core::wire::Sink;
    let mut bytes = Vec::new();
    for int in [used, start_ms, length_ms] {
        bytes.put_int(int);
    }
    Quota::decode(&mut Source::new(&bytes))
}

#[test]
fn impossible_quotas_do_not_decode() {
    let start_ms = BASE_US / 1000;
    assert!(decoded(1, start_ms, 60_000).is_ok());
    assert!(decoded(MAX_AMOUNT, MAX_INSTANT_US / 1000, 367 * 86_400_000).is_ok());
    for (used, start_ms, length_ms) in [
        (0, start_ms, 60_000),
        (MAX_AMOUNT + 1, start_ms, 60_000),
        (u64::MAX, start_ms, 60_000),
        (1, start_ms, 0),
        (1, start_ms, 367 * 86_400_000 + 1),
        (1, start_ms, u64::MAX),
        (1, MAX_INSTANT_US / 1000 + 1, 60_000),
        (1, u64::MAX, 60_000),
    ] {
        assert_eq!(
            decoded(used, start_ms, length_ms),
            Err(Invalid),
            "{used} {start_ms} {length_ms}"
        );
    }
}

#[test]
fn a_period_just_ahead_governs_and_one_far_ahead_is_void() {
    let quota = decoded(5, 1_000_000_000, 60_000).unwrap();
    let fresh = || (7, 8);
    let at = |now_ms: u64| View::new(Some(&quota), fresh, now_ms * 1000).used();
    assert_eq!(at(1_000_000_000 - 60_001), 0, "more than one period ahead: void");
    assert_eq!(at(1_000_000_000 - 60_000), 5, "one period ahead: governs");
    assert_eq!(at(1_000_000_000 + 59_999), 5);
    assert_eq!(at(1_000_000_000 + 60_000), 0, "over");
    let governing = || -> (u64, u64) { unreachable!("a period governs: nothing to compute") };
    let view = View::new(Some(&quota), governing, 999_999_999_000);
    assert_eq!((view.wait_us(5), view.wait_us(4), view.reset_us()), (0, 60_001_000, 60_001_000));
}

#[test]
fn a_refund_stays_in_its_period() {
    let start_us = 1_000_000_000_000;
    let quota = decoded(5, start_us / 1000, 60_000).unwrap();
    let now_us = start_us + 10_000_000;
    let left = |units, age_us| {
        let mut state = Some(quota);
        let delta = View::new(state.as_ref(), || (0, 1), now_us).refund(units, age_us)?;
        apply(&mut state, &delta, now_us).unwrap();
        Some(state.map_or(0, |quota| quota.used()))
    };
    assert_eq!(left(2, 0), Some(3));
    assert_eq!(left(2, 10_000_000), Some(3), "charged as the period opened");
    assert_eq!(left(2, 10_000_001), None, "charged before it opened");
    assert_eq!(left(2, u64::MAX), None);
    assert_eq!(left(5, 0), Some(0), "nothing used: no state");
    assert_eq!(left(MAX_AMOUNT, 0), Some(0), "never above unused");
    assert_eq!(left(0, 0), None);
    assert_eq!(View::new(None, || (0, 1), now_us).refund(1, 0), None);
}

#[test]
fn what_is_over_is_pruned_by_the_instant_of_the_effect() {
    let delta = View::new(None, || (0, 60_000), 0).charge(1);
    for (now_us, kept) in [(0, true), (59_999_999, true), (60_000_000, false), (u64::MAX, false)] {
        let mut state = None;
        apply(&mut state, &delta, now_us).unwrap();
        assert_eq!(state.is_some(), kept, "{now_us}");
    }
}

#[test]
fn forty_days_of_a_tenant() {
    // From 8 March 2024 on; the last is 16 April, in New York too.
    for (period, used) in [(Period::Day, 1), (Period::Month, 16), (Period::Year, 40)] {
        let mut server = Server::new(period);
        for day in 0..40 {
            server.take(Place(1, 1), 1000, &Ask::whole(1), BASE_US + day * 24 * HOUR_US);
        }
        assert_eq!(server.state.unwrap().used(), used, "{period:?}");
    }
}
