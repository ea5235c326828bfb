//! The bucket against a naive model in exact rational numbers.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by them")]

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use proptest::sample::select;
use redis_limiter_core::bucket::{Bucket, CompactBucket, PackedBucket, View};
use redis_limiter_core::law::{Ask, Charging, Outcome, Usage, decide};
use redis_limiter_core::state::Delta;
use redis_limiter_core::units::Rate;
use redis_limiter_core::wire::Source;

const START_US: u64 = 1_700_000_000_123_456;
/// 366 days.
const LONGEST_US: u64 = 31_622_400_000_000;

fn int(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}

fn zero() -> BigRational {
    int(0)
}

/// Units per microseconds, as the module and as the model know it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Speed(u64, u64);

impl Speed {
    fn rate(self) -> Rate {
        Rate::new(self.0.into(), self.1.into()).expect("in range")
    }

    fn per_us(self) -> BigRational {
        BigRational::new(self.0.into(), self.1.into())
    }
}

/// The text book: refills continuously, ends when the rate of the last charge has refilled it (that
/// in whole milliseconds, rounded up).
#[derive(Clone, Debug)]
struct Model {
    used: BigRational,
    at_us: BigRational,
    end_ms: BigRational,
}

impl Model {
    fn new() -> Self {
        Self { used: zero(), at_us: zero(), end_ms: zero() }
    }

    /// The clock rule.
    fn settle(&mut self, now_us: u64) {
        let ahead = &self.at_us - int(now_us);
        if ahead > zero() {
            self.at_us -= &ahead;
            self.end_ms -= (ahead / int(1000)).floor();
        }
    }

    fn end_us(&self) -> BigRational {
        &self.end_ms * int(1000)
    }

    fn used(&self, now_us: u64, speed: Speed) -> BigRational {
        let now_us = int(now_us);
        if now_us >= self.end_us() {
            return zero();
        }
        let left = &self.used - speed.per_us() * (now_us - &self.at_us);
        left.max(zero())
    }

    /// When `target` is reached, if that is later than now.
    fn wait_us(&self, target: u64, now_us: u64, speed: Speed) -> BigRational {
        if self.used(now_us, speed) <= int(target) {
            return zero();
        }
        let reached = &self.at_us + (&self.used - int(target)) / speed.per_us();
        reached.min(self.end_us()) - int(now_us)
    }

    fn set(&mut self, used: BigRational, at_us: BigRational, speed: Speed) {
        self.end_ms = ((&at_us + &used / speed.per_us()) / int(1000)).ceil();
        (self.used, self.at_us) = (used, at_us);
    }

    fn charge(&mut self, units: u64, now_us: u64, speed: Speed) {
        self.set(self.used(now_us, speed) + int(units), int(now_us), speed);
    }

    fn refund(&mut self, units: u64, now_us: u64, speed: Speed) {
        let used = self.used(now_us, speed);
        if used > zero() && used <= int(units) {
            *self = Self::new();
        } else if used > zero() {
            self.set(&self.used - int(units), self.at_us.clone(), speed);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Do {
    Ask(Ask),
    Refund(u64),
}

#[derive(Clone, Copy, Debug)]
struct Call {
    step_us: i64,
    speed: Speed,
    burst: u64,
    action: Do,
}

fn speed() -> impl Strategy<Value = Speed> {
    prop_oneof![
        6 => select(vec![Speed(1, 1_000_000), Speed(10, 100_000), Speed(7, 180_000_000)]),
        1 => select(vec![Speed(1, LONGEST_US), Speed(1_000_000_000, 1_000_000)]),
        3 => (1..50u64, 1..20_000_000u64).prop_map(|(units, micros)| Speed(units, micros)),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let charging = prop_oneof![
        6 => Just(Charging::Whole),
        1 => Just(Charging::Force),
        2 => Just(Charging::UpTo),
        2 => select(vec![1, 250, 60_000]).prop_map(|ms| Charging::MaxWait { ms }),
    ];
    let leave = prop_oneof![4 => Just(0), 1 => 0..4u64];
    (0..6u64, leave, charging).prop_map(|(cost, leave, charging)| match charging {
        Charging::Force => Ask { cost, leave: 0, charging },
        Charging::UpTo => Ask { cost: cost.max(1), leave, charging },
        _ => Ask { cost, leave, charging },
    })
}

fn call() -> impl Strategy<Value = Call> {
    let step_us = prop_oneof![
        4 => Just(0i64),
        8 => 0..200_000i64,
        8 => 0..3_000_000i64,
        2 => 0..300_000_000i64,
        1 => -400_000..0i64,
        1 => -100_000_000..0i64,
    ];
    let action = prop_oneof![
        8 => ask().prop_map(Do::Ask),
        1 => (1..5u64).prop_map(Do::Refund),
    ];
    (step_us, speed(), 0..12u64, action).prop_map(|(step_us, speed, burst, action)| Call {
        step_us,
        speed,
        burst,
        action,
    })
}

/// Calls with a rate and burst of their own, or all with the same.
fn calls() -> impl Strategy<Value = Vec<Call>> {
    let many = prop::collection::vec(call(), 1..60);
    (many, prop::option::of((speed(), 1..12u64))).prop_map(|(mut calls, same)| {
        if let Some((speed, burst)) = same {
            calls.iter_mut().for_each(|call| (call.speed, call.burst) = (speed, burst));
        }
        calls
    })
}

/// A call that changed the bucket, for the law over spans.
struct Event {
    /// Time that has passed: clock steps back count as none.
    passed_us: u64,
    speed: Speed,
    burst: u64,
    /// Admitted by the law itself, neither forced nor booked ahead.
    admitted: u64,
    refunded: u64,
}

/// From each admission on: at most the largest burst, and the time at the largest rate.
fn check_spans(events: &[Event]) {
    for from in 0..events.len() {
        let (mut burst, mut fastest, mut sum) = (0, zero(), zero());
        for event in &events[from..] {
            fastest = fastest.max(event.speed.per_us());
            if event.admitted > 0 {
                burst = burst.max(event.burst);
            }
            sum += int(event.admitted) - int(event.refunded);
            let passed_us = int(event.passed_us - events[from].passed_us);
            assert!(event.admitted == 0 || sum <= int(burst) + &fastest * passed_us);
            // A refund forgives what was charged before; more than that is not credit.
            sum = sum.max(zero());
        }
    }
}

fn store(slot: &mut Option<Bucket>, delta: Option<Delta>) {
    match delta {
        Some(Delta::Bucket(bucket)) => *slot = Some(bucket),
        Some(_) => *slot = None,
        None => {}
    }
}

/// How far the bucket may lie above the model after `changes` changes: a 2^32th of a unit each.
fn rounding(changes: u64) -> BigRational {
    BigRational::new(changes.into(), BigInt::from(1u64 << 32))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn never_admits_more_than_the_model_and_hardly_less(calls in calls()) {
        let (mut slot, mut model, mut events) = (None::<Bucket>, Model::new(), Vec::new());
        let (mut now_us, mut passed_us, mut changes) = (START_US, 0, 0u64);
        let mut slowest = int(1000);
        for Call { step_us, speed, burst, action } in calls {
            now_us = now_us.saturating_add_signed(step_us);
            passed_us += step_us.max(0).unsigned_abs();
            slowest = slowest.min(speed.per_us());
            let slack_us = rounding(changes) / &slowest + int(1000);
            let mut event = Event { passed_us, speed, burst, admitted: 0, refunded: 0 };
            // A call of cost 0 writes nothing, not even for the clock rule.
            let unsettled = model.clone();
            model.settle(now_us);
            let settled = View::new(slot, speed.rate(), now_us).settle();
            prop_assert!(settled.is_none() || slot.is_some_and(|bucket| bucket.at_us() > now_us));
            let view = View::new(slot, speed.rate(), now_us);
            let exact = model.used(now_us, speed);
            // What is used is never less than in the model, and more only by rounding.
            prop_assert!(int(view.used()) >= exact);
            if let Some(bucket) = settled.or(slot) {
                let late_us = int(bucket.end_ms() * 1000) - model.end_us();
                prop_assert!(late_us >= zero() && late_us <= slack_us);
            }
            if int(now_us) < model.end_us() {
                prop_assert!(int(view.used()) < &exact + rounding(changes + 1) + int(1));
            }
            match action {
                Do::Refund(units) => {
                    // By what is used in the model no more than that can be forgiven.
                    event.refunded = units;
                    let before = slot;
                    store(&mut slot, view.refund(units).or(settled.map(Delta::Bucket)));
                    changes += u64::from(slot != before);
                    model.refund(units, now_us, speed);
                }
                Do::Ask(ask) => {
                    let outcome = decide(&view, burst, &ask).expect("far from the most");
                    check_outcome(&model, slot, now_us, speed, burst, ask, outcome, &slack_us)?;
                    if let Outcome::Admit { units: units @ 1.., .. } = outcome {
                        slot = Some(view.charge(units));
                        model.charge(units, now_us, speed);
                        changes += 1;
                        if matches!(ask.charging, Charging::Whole | Charging::UpTo) {
                            event.admitted = units;
                        }
                    } else if matches!(outcome, Outcome::Admit { .. }) {
                        model = unsettled;
                    } else if settled.is_some() {
                        slot = settled;
                        changes += 1;
                    }
                }
            }
            events.push(event);
            if let Some(bucket) = slot {
                prop_assert_eq!(Bucket::from(PackedBucket::from(bucket)), bucket);
                if let Some(compact) = CompactBucket::new(&bucket) {
                    prop_assert_eq!(Bucket::from(compact), bucket);
                }
                let mut bytes = Vec::new();
                bucket.encode(&mut bytes);
                prop_assert_eq!(Bucket::decode(&mut Source::new(&bytes)), Ok(bucket));
            }
        }
        check_spans(&events);
    }
}

/// Whether the law and the model agree, but for rounding, on what was decided.
#[allow(clippy::too_many_arguments, reason = "everything about one call")]
fn check_outcome(
    model: &Model,
    slot: Option<Bucket>,
    now_us: u64,
    speed: Speed,
    burst: u64,
    ask: Ask,
    outcome: Outcome,
    slack_us: &BigRational,
) -> Result<(), TestCaseError> {
    let needed = if ask.charging == Charging::UpTo { 1 } else { ask.cost };
    let target = burst.checked_sub(needed + ask.leave).filter(|_| burst > 0);
    match (outcome, target, ask.charging) {
        (Outcome::Admit { units, wait_ms }, _, Charging::Force) => {
            prop_assert_eq!((units, wait_ms), (ask.cost, 0));
        }
        (Outcome::Admit { .. }, None, _) => prop_assert!(false, "admitted what never fits"),
        (Outcome::Admit { units, wait_ms }, Some(target), charging) => {
            let exact_us = model.wait_us(target, now_us, speed);
            let most_ms = if let Charging::MaxWait { ms } = charging { ms } else { 0 };
            prop_assert!(wait_ms <= most_ms && int(wait_ms * 1000) >= exact_us);
            if charging == Charging::UpTo {
                let after = model.used(now_us, speed) + int(units + ask.leave);
                prop_assert!((1..=ask.cost).contains(&units) && after <= int(burst));
            } else {
                prop_assert_eq!(units, ask.cost);
            }
        }
        (Outcome::Refuse { retry_after_ms }, None, _) => prop_assert_eq!(retry_after_ms, -1),
        (Outcome::Refuse { retry_after_ms }, Some(target), charging) => {
            let most_ms = if let Charging::MaxWait { ms } = charging { ms } else { 0 };
            let promised_us = int((retry_after_ms.unsigned_abs() + most_ms) * 1000);
            let exact_us = model.wait_us(target, now_us, speed);
            prop_assert!(retry_after_ms > 0 && promised_us >= exact_us);
            prop_assert!(promised_us <= exact_us + slack_us);
            // Refused 1 ms before the promised wait, admitted exactly at it.
            let settled = slot.map(|bucket| bucket.moved_back(now_us).unwrap_or(bucket));
            let retry_us = now_us + retry_after_ms.unsigned_abs() * 1000;
            for (then_us, admitted) in [(retry_us - 1000, false), (retry_us, true)] {
                let view = View::new(settled, speed.rate(), then_us);
                let outcome = decide(&view, burst, &ask).expect("far from the most");
                prop_assert_eq!(matches!(outcome, Outcome::Admit { .. }), admitted);
            }
        }
    }
    Ok(())
}
