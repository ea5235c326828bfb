//! The bucket at its edges: how much rounding costs, the largest numbers, ends, booked waits.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by them")]

use proptest::prelude::*;
use proptest::sample::select;
use redis_limiter_core::bucket::{Bucket, CompactBucket, PackedBucket, View};
use redis_limiter_core::law::{Ask, Charging, Outcome, Usage, decide};
use redis_limiter_core::state::Delta;
use redis_limiter_core::subject::Subject;
use redis_limiter_core::units::{MAX_AMOUNT, MAX_INSTANT_US, MAX_MAXWAIT_MS, Rate};
use redis_limiter_core::wire::{Sink, Source};

const START_US: u64 = 1_700_000_000_123_456;

fn rate(text: &str) -> Rate {
    Rate::parse(text.as_bytes()).expect("a rate")
}

fn charged(slot: Option<Bucket>, rate: Rate, units: u64, now_us: u64) -> Bucket {
    View::new(slot, rate, now_us).charge(units)
}

fn admits(slot: Option<Bucket>, rate: Rate, burst: u64, ask: Ask, now_us: u64) -> bool {
    let outcome = decide(&View::new(slot, rate, now_us), burst, &ask);
    matches!(outcome, Ok(Outcome::Admit { .. }))
}

#[test]
fn the_common_subject_takes_16_bytes() {
    assert_eq!(size_of::<Subject>(), 16);
    assert_eq!(size_of::<CompactBucket>(), 16);
    assert_eq!(size_of::<PackedBucket>(), 24);
}

/// What the small form is for; the rest takes the larger one, with the same meaning.
#[test]
fn usual_buckets_have_the_small_form() {
    let compact = |speed: &str, units, at_us| {
        let bucket = charged(None, rate(speed), units, at_us);
        check_forms(bucket);
        CompactBucket::new(&bucket).is_some()
    };
    for (speed, units) in [
        ("1000000000", 200_000_000),
        ("1000000", 33_000_000),
        ("16666", 1_000_000),
        ("10", 80_000),
        ("5000/d", 15_000),
        ("1/366d", 1),
    ] {
        assert!(compact(speed, units, START_US), "{speed} {units}");
    }
    assert!(!compact("1000000000", 1 << 34, START_US));
    assert!(!compact("1/d", 1 << 20, START_US));
    let (first_us, last_us) = (1_577_836_800_000_000, 2_703_736_706_842_622);
    assert!(compact("10", 5, first_us) && !compact("10", 5, first_us - 1));
    assert!(compact("10", 5, last_us) && !compact("10", 5, last_us + 1));
}

/// A greedy client that asks at every microsecond, or at others, gets all of the rate but for one
/// part in a million.
#[test]
fn rounding_costs_less_than_a_millionth_of_the_rate() {
    for (text, units_per_s, step_us) in [
        ("999.999999", 999.999_999, 1),
        ("999.999999", 999.999_999, 1_001),
        ("1000000000", 1e9, 1),
        ("333333.3", 333_333.3, 1),
        ("7/3m", 7.0 / 180.0, 100_003),
        ("1/366d", 1.0 / 31_622_400.0, 143_224_399_999),
        ("10/100ms", 100.0, 777),
    ] {
        let (rate, burst) = (rate(text), 5_000);
        let (mut slot, mut now_us, mut sum) = (None, START_US, 0u64);
        for _ in 0..100_000 {
            let view = View::new(slot, rate, now_us);
            let ask = Ask { cost: burst, leave: 0, charging: Charging::UpTo };
            if let Ok(Outcome::Admit { units, .. }) = decide(&view, burst, &ask) {
                slot = Some(view.charge(units));
                sum += units;
            }
            now_us += step_us;
        }
        let passed_s = (now_us - START_US - step_us) as f64 / 1e6;
        let fair = burst as f64 + passed_s * units_per_s;
        // Units of what has begun to refill, and the precision of doubles, aside.
        assert!(sum as f64 >= fair * (1.0 - 1e-6) - 1.0, "{text}: {sum} of {fair}");
        assert!(sum as f64 <= fair * (1.0 + 1e-9) + 1e-3, "{text}: {sum} of {fair}");
    }
}

#[test]
fn polling_a_refused_bucket_does_not_slow_it() {
    let (rate, burst) = (rate("7/3m"), 3);
    let bucket = charged(None, rate, burst, START_US);
    let ready_us = START_US + View::new(Some(bucket), rate, START_US).wait_us(burst - 1);
    for n in 0..1_000_000 {
        let now_us = START_US + n;
        let view = View::new(Some(bucket), rate, now_us);
        assert!(matches!(decide(&view, burst, &Ask::whole(1)), Ok(Outcome::Refuse { .. })));
        assert_eq!((view.settle(), now_us + view.wait_us(burst - 1)), (None, ready_us));
    }
    assert!(!admits(Some(bucket), rate, burst, Ask::whole(1), ready_us - 1));
    assert!(admits(Some(bucket), rate, burst, Ask::whole(1), ready_us));
}

#[test]
fn what_has_ended_does_not_come_back() {
    let (fast, slow) = (rate("1000"), rate("1/366d"));
    let bucket = charged(None, fast, 10, START_US);
    let end_us = bucket.end_ms() * 1000;
    assert!((START_US + 10_000..START_US + 11_000).contains(&end_us));
    // Before its end a slower rate counts for all the time since the last charge …
    let before = View::new(Some(bucket), slow, end_us - 1);
    assert_eq!((before.used(), before.wait_us(0)), (10, 1));
    assert!(!bucket.has_ended(end_us - 1));
    // … afterwards no more.
    for now_us in [end_us, end_us + 1, MAX_INSTANT_US] {
        let view = View::new(Some(bucket), slow, now_us);
        assert_eq!((view.used(), view.reset_us(), view.refund(1)), (0, 0, None));
        assert!(bucket.has_ended(now_us));
        assert!(admits(Some(bucket), slow, 10, Ask::whole(10), now_us));
        assert_eq!(view.charge(3).used_at_last_charge(), 3);
    }
    // A promise made at the slower rate is kept at the end.
    let now_us = START_US + 1_000;
    let view = View::new(Some(bucket), slow, now_us);
    let Ok(Outcome::Refuse { retry_after_ms }) = decide(&view, 10, &Ask::whole(1)) else {
        panic!("admitted")
    };
    assert!((9..=10).contains(&retry_after_ms));
}

#[test]
fn undoing_a_charge_leaves_what_was_there() {
    let (rate, now_us) = (rate("7/3m"), START_US + 1_234_567);
    let before = charged(None, rate, 5, START_US);
    let view = View::new(Some(charged(Some(before), rate, 2, now_us)), rate, now_us);
    let Some(Delta::Bucket(after)) = view.refund(2) else { panic!("something is used") };
    for then_us in [now_us, now_us + 1_000, now_us + 100_000_000, before.end_ms() * 1000 - 1000] {
        let [a, b] = [before, after].map(|bucket| View::new(Some(bucket), rate, then_us));
        assert_eq!(a.used(), b.used());
        for target in 0..5 {
            assert!(a.wait_us(target).abs_diff(b.wait_us(target)) <= 1);
        }
    }
    assert!(before.end_ms().abs_diff(after.end_ms()) <= 1);
    // Of an unused bucket nothing is left; nor is anything lifted above unused.
    for units in [2, 3, MAX_AMOUNT] {
        let view = View::new(Some(charged(None, rate, 2, now_us)), rate, now_us);
        assert_eq!(view.refund(units), Some(Delta::Forget));
    }
}

/// The life of a bucket that just fits its packed form may not grow out of it when the clock rule
/// moves it: what the primary stores must be what it sends.
#[test]
fn a_moved_bucket_keeps_one_encoding() {
    let life_ms: u64 = (1 << 43) - 2;
    let at_us = START_US / 1000 * 1000;
    let mut bytes = vec![1, 0, 0, 0, 0];
    bytes.put_int(at_us);
    bytes.put_int(at_us / 1000 + life_ms);
    let bucket = Bucket::decode(&mut Source::new(&bytes)).expect("valid");
    for back_us in [1, 500, 999, 1000, 1001] {
        let moved = bucket.moved_back(at_us - back_us).expect("in the future");
        check_forms(moved);
        assert!(moved.end_ms() >= moved.at_us() / 1000);
    }
}

fn check_forms(bucket: Bucket) {
    assert_eq!(Bucket::from(PackedBucket::from(bucket)), bucket);
    if let Some(compact) = CompactBucket::new(&bucket) {
        assert_eq!(Bucket::from(compact), bucket);
    }
    let mut bytes = Vec::new();
    bucket.encode(&mut bytes);
    let mut source = Source::new(&bytes);
    assert_eq!(Bucket::decode(&mut source), Ok(bucket));
    assert_eq!(source.finish(), Ok(()));
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let named = select(vec![
        "1/366d",
        "1000000000",
        "1",
        "0.03/d",
        "999999999.999999",
        "31622399999999999.999999/366d",
    ]);
    prop_oneof![
        named.prop_map(rate),
        (1..=u64::MAX, 1..=u64::MAX, 0..64u32, 0..64u32)
            .prop_filter_map("a rate", |(a, b, i, j)| {
                Rate::new((a >> i).into(), u128::from(b >> j).max(1))
            }),
    ]
}

/// Amounts of every size, with the extremes.
fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => select(vec![0, 1, MAX_AMOUNT - 1, MAX_AMOUNT]),
        3 => (0..=MAX_AMOUNT, 0..53u32).prop_map(|(amount, shift)| amount >> shift),
    ]
}

fn instant() -> impl Strategy<Value = u64> {
    prop_oneof![
        select(vec![0, 1, 999, 1000, START_US, MAX_INSTANT_US - 1, MAX_INSTANT_US]),
        START_US..START_US + 10_000_000,
        0..=MAX_INSTANT_US,
    ]
}

fn charging() -> impl Strategy<Value = Charging> {
    prop_oneof![
        3 => Just(Charging::Whole),
        1 => Just(Charging::UpTo),
        1 => Just(Charging::Force),
        1 => (1..=MAX_MAXWAIT_MS).prop_map(|ms| Charging::MaxWait { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_numbers_are_too_large(
        calls in prop::collection::vec(
            (any_rate(), amount(), amount(), amount(), charging(), instant(), any::<bool>()), 1..12,
        ),
    ) {
        let mut slot: Option<Bucket> = None;
        for (rate, burst, cost, leave, charging, now_us, refund) in calls {
            let view = View::new(slot, rate, now_us);
            prop_assert!(view.used() <= MAX_AMOUNT);
            prop_assert!(view.reset_us() >= view.wait_us(burst));
            let cost = if charging == Charging::UpTo { cost.max(1) } else { cost };
            let ask = Ask { cost, leave, charging };
            if refund {
                match view.refund(cost.max(1)) {
                    Some(Delta::Bucket(bucket)) => slot = Some(bucket),
                    Some(_) => slot = None,
                    None => prop_assert_eq!(view.used(), 0),
                }
            } else {
                match decide(&view, burst, &ask) {
                    Ok(Outcome::Admit { units: 0, .. }) => {}
                    Ok(Outcome::Admit { units, .. }) => slot = Some(view.charge(units)),
                    Ok(Outcome::Refuse { retry_after_ms }) => {
                        prop_assert!(retry_after_ms == -1 || retry_after_ms > 0);
                        slot = view.settle().or(slot);
                        let then_us = now_us.saturating_add(retry_after_ms.unsigned_abs().saturating_mul(1000));
                        if retry_after_ms > 0 && then_us <= MAX_INSTANT_US {
                            let then = |at_us| decide(&View::new(slot, rate, at_us), burst, &ask);
                            let early = matches!(then(then_us - 1000), Ok(Outcome::Refuse { .. }));
                            let late = matches!(then(then_us), Ok(Outcome::Refuse { .. }));
                            prop_assert!(early && !late);
                        }
                    }
                    // Only what may book or force beyond the limit can exceed the most.
                    Err(_) => {
                        prop_assert!(!matches!(charging, Charging::Whole | Charging::UpTo));
                    }
                }
            }
            slot.into_iter().for_each(check_forms);
        }
    }

    /// Booked starts come in the order of the calls, and whoever keeps to them keeps to the law (but
    /// for the millisecond to which a wait is rounded up, where refill takes no whole milliseconds).
    #[test]
    fn booked_starts_are_ordered_and_keep_the_law(
        (unit_ms, text) in select(vec![(1, "1000"), (10, "100"), (7, "1/7ms"), (0, "999.999999"), (0, "7/3s"), (0, "123456.7")]),
        burst in 1..8u64,
        calls in prop::collection::vec((0..40u64, 1..6u64, prop::bool::weighted(0.7)), 1..80),
    ) {
        let rate = rate(text);
        let (mut slot, mut now_us) = (None::<Bucket>, START_US / 1000 * 1000);
        let mut starts: Vec<(u64, u64)> = Vec::new();
        for (step_ms, cost, books) in calls {
            now_us += step_ms * 1000;
            let charging = if books { Charging::MaxWait { ms: 5_000 } } else { Charging::Whole };
            let view = View::new(slot, rate, now_us);
            let ask = Ask { cost, leave: 0, charging };
            if let Ok(Outcome::Admit { units, wait_ms }) = decide(&view, burst, &ask) {
                slot = Some(view.charge(units));
                starts.push((now_us + wait_ms * 1000, units));
            }
        }
        prop_assert!(starts.is_sorted_by_key(|(start_us, _)| *start_us));
        for (n, (from_us, _)) in starts.iter().enumerate() {
            let mut sum = 0;
            for (until_us, units) in &starts[n..] {
                sum += units;
                let passed_us = until_us - from_us + if unit_ms == 0 { 1000 } else { 0 };
                let refill = match unit_ms {
                    0 => passed_us as f64 * per_us(text),
                    unit_ms => (passed_us / (unit_ms * 1000)) as f64,
                };
                prop_assert!(sum as f64 <= burst as f64 + refill + 1e-6);
            }
        }
        // One start for each: distinct to the millisecond, where a unit takes that long.
        if unit_ms > 0 && burst == 1 {
            prop_assert!(starts.windows(2).all(|two| two[0].0 < two[1].0));
        }
    }
}

fn per_us(text: &str) -> f64 {
    match text {
        "999.999999" => 999.999_999e-6,
        "7/3s" => 7.0 / 3e6,
        _ => 123_456.7e-6,
    }
}
