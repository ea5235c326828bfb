//! The laws of windows, each against a naive list of admissions.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod forged;
mod full_log;
mod oracle;
mod server;

use oracle::Oracle;
use proptest::prelude::*;
use redis_limiter_core::law::{Ask, Charging, Outcome, Usage, decide};
use redis_limiter_core::window::{Fixed, Log, Sliding};
use server::{Mode, Server};

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Take {
        limit: u64,
        ask: Ask,
    },
    Refund {
        units: u64,
        age_us: u64,
    },
    /// Microseconds by which the clock moves, maybe backwards.
    Clock(i64),
    /// The replica is saved and loaded again.
    Reload,
}

fn ask() -> impl Strategy<Value = Ask> {
    let charging = prop_oneof![
        4 => Just(Charging::Whole),
        1 => Just(Charging::Force),
        2 => Just(Charging::UpTo),
    ];
    (1..6u64, 0..3u64, charging).prop_map(|(cost, leave, charging)| Ask { cost, leave, charging })
}

fn clock(length_ms: u64) -> impl Strategy<Value = i64> {
    let length_us = i64::try_from(length_ms).unwrap() * 1000;
    prop_oneof![
        4 => 0..3000i64,
        6 => 0..length_us / 8,
        2 => (0..8i64).prop_map(|ms| ms * 1000),
        1 => 0..2 * length_us,
        1 => -length_us / 4..0,
        1 => -3 * length_us..0,
    ]
}

fn steps(length_ms: u64) -> impl Strategy<Value = Vec<Step>> {
    let length_us = length_ms * 1000;
    let age_us = prop_oneof![Just(0), 0..=length_us, Just(length_us - 1), Just(u64::MAX)];
    let step = prop_oneof![
        8 => (0..20u64, ask()).prop_map(|(limit, ask)| Step::Take { limit, ask }),
        2 => (0..10u64, age_us).prop_map(|(units, age_us)| Step::Refund { units, age_us }),
        7 => clock(length_ms).prop_map(Step::Clock),
        1 => Just(Step::Reload),
    ];
    prop::collection::vec(step, 1..120)
}

/// Length, first instant (also near the epoch, where stamps cannot move back far) and steps.
fn history() -> impl Strategy<Value = (u64, u64, Vec<Step>)> {
    let recent_us = 1_700_000_000_000_000u64;
    let start_us = prop_oneof![Just(0u64), 0..100_000u64, recent_us..recent_us + 1_000_000];
    let length_ms = prop_oneof![16..40u64, Just(100), Just(1000)];
    length_ms.prop_flat_map(move |ms| (Just(ms), start_us.clone(), steps(ms)))
}

/// Runs a history on a primary, a replica and the oracle, which must agree after each step.
fn agrees_with_oracle<M: Mode>(length_ms: u64, start_us: u64, steps: &[Step]) {
    let mut server = Server::<M>::new(length_ms);
    let mut oracle = Oracle::new(M::RULES, length_ms);
    let mut now_us = start_us;
    for step in steps {
        match step {
            Step::Clock(by_us) => now_us = now_us.saturating_add_signed(*by_us),
            Step::Reload => server.reload_replica(),
            Step::Refund { units, age_us } => {
                let moved = oracle.look(now_us);
                let changed = oracle.refund(*units, *age_us) || moved;
                assert_eq!(server.refund(*units, *age_us, now_us), changed);
            }
            Step::Take { limit, ask } => {
                oracle.look(now_us);
                let outcome = server.take(*limit, ask, now_us);
                assert_eq!(Ok(outcome), decide(&oracle, *limit, ask));
                match outcome {
                    Outcome::Admit { units, .. } => oracle.charge(units),
                    Outcome::Refuse { retry_after_ms } => {
                        keeps_promise(&server, *limit, ask, retry_after_ms, now_us);
                    }
                }
            }
        }
        sees_the_same(&server, &oracle, now_us);
    }
}

/// What is stored, seen now, is what the oracle's list says now.
fn sees_the_same<M: Mode>(server: &Server<M>, oracle: &Oracle, now_us: u64) {
    let mut oracle = oracle.clone();
    oracle.look(now_us);
    let view = M::view(server.primary.as_ref(), server.length_ms, now_us);
    assert_eq!(view.used(), oracle.used());
    assert_eq!(view.reset_us(), oracle.reset_us());
    for target in 0..=oracle.used() {
        assert_eq!(view.wait_us(target), oracle.wait_us(target), "target {target}");
    }
    let summary = M::summary(&view);
    assert_eq!(summary.is_some(), oracle.used() > 0);
    if let Some(summary) = summary {
        assert_eq!(summary.used, oracle.used());
        assert_eq!(summary.since_ms, oracle.since_ms());
        assert_eq!(summary.until_ms, (now_us + oracle.reset_us()).div_ceil(1000));
    }
}

/// The same call succeeds after the promised wait, and is refused 1 ms earlier.
fn keeps_promise<M: Mode>(
    server: &Server<M>,
    limit: u64,
    ask: &Ask,
    retry_after_ms: i64,
    now_us: u64,
) {
    let again = |after_ms: u64| {
        let later_us = now_us + after_ms * 1000;
        decide(&M::view(server.primary.as_ref(), server.length_ms, later_us), limit, ask).unwrap()
    };
    match u64::try_from(retry_after_ms) {
        Err(_) => assert_eq!(again(10 * server.length_ms), Outcome::Refuse { retry_after_ms: -1 }),
        Ok(after_ms) => {
            assert!(after_ms > 0);
            assert!(matches!(again(after_ms), Outcome::Admit { .. }));
            assert_eq!(again(after_ms - 1), Outcome::Refuse { retry_after_ms: 1 });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn fixed_agrees_with_oracle((length_ms, start_us, steps) in history()) {
        agrees_with_oracle::<Fixed>(length_ms, start_us, &steps);
    }

    #[test]
    fn sliding_agrees_with_oracle((length_ms, start_us, steps) in history()) {
        agrees_with_oracle::<Sliding>(length_ms, start_us, &steps);
    }

    #[test]
    fn log_agrees_with_oracle((length_ms, start_us, steps) in history()) {
        agrees_with_oracle::<Log>(length_ms, start_us, &steps);
    }
}

/// Window, limit, and calls: microseconds since the one before, and units.
fn traffic() -> impl Strategy<Value = (u64, u64, Vec<(u64, u64)>)> {
    let gap_us = prop_oneof![
        4 => 0..2500u64,
        2 => (0..4u64).prop_map(|ms| ms * 1000),
        1 => 0..30_000u64,
    ];
    (16..60u64, 1..12u64, prop::collection::vec((gap_us, 1..4u64), 1..300))
}

/// Slides a span over what was admitted, a millisecond at a time, and from each admission.
fn never_above_limit<M: Mode>(length_ms: u64, limit: u64, calls: &[(u64, u64)]) {
    let mut server = Server::<M>::new(length_ms);
    let mut now_us = 1_700_000_000_000_123;
    let mut admitted = Vec::new();
    for (gap_us, units) in calls {
        now_us += gap_us;
        let ask = Ask { cost: *units, leave: 0, charging: Charging::UpTo };
        if let Outcome::Admit { units, .. } = server.take(limit, &ask, now_us) {
            admitted.push((now_us, units));
        }
    }
    let first_us = admitted[0].0;
    let every_ms = (first_us - length_ms * 1000..now_us).step_by(1000);
    for start_us in every_ms.chain(admitted.iter().map(|(at_us, _)| *at_us)) {
        let span = start_us..start_us + length_ms * 1000;
        let in_span = admitted.iter().filter(|(at_us, _)| span.contains(at_us));
        let units: u64 = in_span.map(|(_, units)| units).sum();
        assert!(units <= limit, "{units} units from {start_us}");
    }
}

/// Charges both the same. For whatever has to be free, LOG is less than a millisecond later than the
/// charge is a window old, and SLIDING at most a sixteenth of the window later than LOG.
fn frees_in_time(length_ms: u64, calls: &[(u64, u64)]) {
    let mut sliding = Server::<Sliding>::new(length_ms);
    let mut log = Server::<Log>::new(length_ms);
    let mut charges = Vec::new();
    let mut now_us = 1_700_000_000_000_000;
    for (gap_us, units) in calls {
        now_us += gap_us;
        sliding.force(*units, now_us);
        log.force(*units, now_us);
        charges.push((now_us, units));
        let sliding = Sliding::view(sliding.primary.as_ref(), length_ms, now_us);
        let log = Log::view(log.primary.as_ref(), length_ms, now_us);
        let mut newer = 0;
        for (at_us, units) in charges.iter().rev() {
            let exact_us = (at_us + length_ms * 1000).saturating_sub(now_us);
            let (sliding_us, log_us) = (sliding.wait_us(newer), log.wait_us(newer));
            assert!(log_us >= exact_us && log_us < exact_us.max(1) + 1000);
            assert!(sliding_us >= exact_us);
            assert!(sliding_us <= log_us + (length_ms * 1000).div_ceil(16));
            newer += *units;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sliding_is_never_above_limit((length_ms, limit, calls) in traffic()) {
        never_above_limit::<Sliding>(length_ms, limit, &calls);
    }

    #[test]
    fn log_is_never_above_limit((length_ms, limit, calls) in traffic()) {
        never_above_limit::<Log>(length_ms, limit, &calls);
    }

    #[test]
    fn units_are_free_in_time((length_ms, _, calls) in traffic()) {
        frees_in_time(length_ms, &calls);
    }

    /// Where nothing else happened, undoing a charge leaves no trace.
    #[test]
    fn a_refund_undoes_a_first_charge(units in 1..9u64, now_us in 0..99_999u64, age_us in 0..16_000u64) {
        fn undo<M: Mode>(units: u64, now_us: u64, age_us: u64) {
            let mut server = Server::<M>::new(16);
            server.force(units, now_us);
            assert!(server.refund(units, age_us, now_us + age_us));
            assert_eq!(server.primary, None);
        }
        undo::<Fixed>(units, now_us, age_us);
        undo::<Sliding>(units, now_us, age_us);
        undo::<Log>(units, now_us, age_us);
    }
}

/// What the table in the docs says of an edge: FIXED lets twice the limit pass, the others do not.
#[test]
fn only_fixed_bursts_twice_across_an_edge() {
    fn burst<M: Mode>() -> u64 {
        let mut server = Server::<M>::new(1000);
        let up_to_10 = Ask { cost: 10, leave: 0, charging: Charging::UpTo };
        server.take(10, &Ask::whole(1), 0);
        let mut admitted = 0;
        for now_us in [999_999, 1_001_000] {
            if let Outcome::Admit { units, .. } = server.take(10, &up_to_10, now_us) {
                admitted += units;
            }
        }
        admitted
    }
    assert_eq!(burst::<Fixed>(), 19);
    assert_eq!(burst::<Sliding>(), 9);
    assert_eq!(burst::<Log>(), 10);
}
