//! Laws that hold for any bytes. Each takes its whole case from bytes and fails by panicking, so that
//! the fuzz targets in `fuzz/` and the short form in `main.rs` check exactly the same.

use redis_limiter_core::calendar::{Anchor, Calendar, Period};
use redis_limiter_core::codec::{Decoded, decode, decode_whole, encode_effect, encode_whole};
use redis_limiter_core::expiry;
use redis_limiter_core::info;
use redis_limiter_core::law::Outcome;
use redis_limiter_core::layers::{Changes, Plan};
use redis_limiter_core::limit::Layer;
use redis_limiter_core::subject::{Change, Subject};
use redis_limiter_core::units::{
    MAX_AMOUNT, MAX_DURATION_MS, MAX_INSTANT_US, Rate, parse_amount, parse_duration_ms,
};

use crate::reader::Reader;

/// Decoding is total, and what it accepts is written again as the same bytes.
pub fn codec(bytes: &[u8]) {
    let Ok(decoded) = decode(bytes) else { return };
    let mut again = Vec::new();
    match &decoded {
        Decoded::Effect { now_us, expire_ms, changes } => {
            encode_effect(*now_us, *expire_ms, changes, &mut again);
            assert!(decode_whole(bytes).is_err());
        }
        Decoded::Whole(subject) => {
            encode_whole(subject, &mut again);
            assert_eq!(decode_whole(bytes).as_ref(), Ok(subject));
            sound(subject, 0);
        }
    }
    assert_eq!(bytes, again);
    // No shorter or longer bytes say the same or anything else.
    assert!(decode(&bytes[..bytes.len() - 1]) != Ok(decoded));
}

/// Any effects, one after another, on any state: whatever a replica or an AOF may be told.
pub fn effects(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let mut slot = decode_whole(reader.chunk()).ok();
    while !reader.is_empty() {
        let Ok(Decoded::Effect { now_us, changes, .. }) = decode(reader.chunk()) else { continue };
        let before = slot.clone();
        let applied = Subject::apply(&mut slot, &changes, now_us);
        let mut twin = before;
        assert_eq!(Subject::apply(&mut twin, &changes, now_us), applied);
        assert_eq!(twin, slot, "the same everywhere");
        if let Some(subject) = &slot {
            sound(subject, now_us);
        }
    }
}

/// Any calls, one after another, on any state, with the clock going anywhere.
pub fn calls(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let mut calendar = Calendar::new();
    let mut slot = decode_whole(reader.chunk()).ok();
    let mut now_us = 1_700_000_000_000_000;
    // A long history says no more than a few short ones.
    for _ in 0..24 {
        if reader.is_empty() {
            break;
        }
        now_us = reader.instant_us(now_us);
        let is_refund = reader.below(4) == 0;
        let force = !is_refund && reader.below(6) == 0;
        let layers = reader.layers(force, &mut calendar);
        if is_refund {
            let age_us = reader.amount();
            let mut changes = Changes::new();
            if let Some(plan) = check(&slot, &layers, now_us, &mut calendar) {
                plan.refund(0, &layers, age_us, &mut changes);
            }
            commit(&mut slot, &changes, now_us);
        } else {
            take(&mut slot, &layers, now_us, &mut calendar);
        }
    }
}

fn take(slot: &mut Option<Subject>, layers: &[Layer], now_us: u64, calendar: &mut Calendar) {
    let Some(plan) = check(slot, layers, now_us, calendar) else { return };
    let _ = plan.grows(0, layers);
    let outcomes: Vec<_> = plan.outcomes().collect();
    assert!(plan.deciding(layers) < layers.len());
    for (layer, verdict) in layers.iter().zip(plan.verdicts(layers, 0..layers.len())) {
        assert!(verdict.integers().iter().all(|&n| (-1..=MAX_AMOUNT.cast_signed()).contains(&n)));
        assert!(verdict.remaining <= layer.capacity());
    }
    let mut changes = Changes::new();
    if plan.admits() {
        plan.charge(0, layers, &mut changes);
        drop(plan);
        let mut new = changes.iter().map(|(identity, _)| *identity);
        if slot.as_ref().is_none_or(|subject| subject.has_room(&mut new, now_us)) {
            commit(slot, &changes, now_us);
        }
        return;
    }
    plan.settle(0, layers, &mut changes);
    drop(plan);
    commit(slot, &changes, now_us);
    for (layer, outcome) in layers.iter().zip(outcomes) {
        keeps_promise(slot, layer, outcome, now_us, calendar);
    }
}

/// The same call succeeds after the promised wait, and is refused 1 ms earlier.
fn keeps_promise(
    slot: &Option<Subject>,
    layer: &Layer,
    outcome: Outcome,
    now_us: u64,
    calendar: &mut Calendar,
) {
    let Outcome::Refuse { retry_after_ms: wait_ms @ 0.. } = outcome else { return };
    // Cost 0 does not write what the clock rule moves, and instants end some day.
    let then_us = now_us.saturating_add(wait_ms.unsigned_abs().saturating_mul(1000));
    if layer.ask.cost == 0 || then_us >= MAX_INSTANT_US {
        return;
    }
    let layers = std::slice::from_ref(layer);
    let mut admitted =
        |at_us| check(slot, layers, at_us, calendar).is_none_or(|plan| plan.admits());
    assert!(wait_ms > 0 && admitted(then_us), "{layer:?} {wait_ms} ms after {now_us}");
    assert!(!admitted(then_us - 1000), "{layer:?} {wait_ms} ms after {now_us}: too long");
}

fn check<'s>(
    slot: &'s Option<Subject>,
    layers: &[Layer],
    now_us: u64,
    calendar: &mut Calendar,
) -> Option<Plan<'s>> {
    Plan::check(slot.as_ref(), layers, now_us, calendar).ok()
}

/// What was decided can be sent, read, and applied, here and there, with the same result.
fn commit(slot: &mut Option<Subject>, changes: &[Change], now_us: u64) {
    if changes.is_empty() {
        return;
    }
    let mut replica = slot.as_ref().map(|subject| decode_whole(&whole(subject)).unwrap());
    assert_eq!(Subject::apply(slot, changes, now_us), Ok(()));
    let end_us = slot.as_ref().map_or(0, Subject::end_us);
    let expire_ms = expiry::correction_ms(end_us, None, now_us).unwrap_or(0);
    let mut sent = Vec::new();
    encode_effect(now_us, expire_ms, changes, &mut sent);
    let Ok(Decoded::Effect { now_us, changes, .. }) = decode(&sent) else {
        panic!("not valid: {changes:?} at {now_us}");
    };
    assert_eq!(Subject::apply(&mut replica, &changes, now_us), Ok(()));
    assert_eq!(&replica, &*slot);
    if let Some(subject) = slot {
        sound(subject, now_us);
        assert!(subject.end_us() > now_us, "{subject:?} has ended by {now_us}");
    }
}

fn whole(subject: &Subject) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_whole(subject, &mut bytes);
    bytes
}

/// What a stored state must always be able to do.
fn sound(subject: &Subject, now_us: u64) {
    let bytes = whole(subject);
    let loaded = decode_whole(&bytes).unwrap();
    assert_eq!(&loaded, subject);
    assert_eq!(whole(&loaded), bytes);
    assert_eq!(whole(&subject.clone()), bytes);
    assert!(subject.free_effort() >= 1);
    let _ = subject.heap_bytes();
    for at_us in [0, now_us, subject.end_us(), u64::MAX] {
        let entries = info::entries(subject, at_us).count();
        assert!(entries <= subject.live(at_us).count());
    }
    assert_eq!(subject.live(subject.end_us()).count(), 0);
}

/// Parsing amounts, durations, rates, periods, anchors and zones.
pub fn units(bytes: &[u8]) {
    if let Some(amount) = parse_amount(bytes) {
        assert!(amount <= MAX_AMOUNT && bytes.iter().all(u8::is_ascii_digit));
        assert_eq!(parse_amount(amount.to_string().as_bytes()), Some(amount));
    }
    if let Some(ms) = parse_duration_ms(bytes) {
        assert_eq!(parse_duration_ms(format!("{ms}ms").as_bytes()), Some(ms));
        let rate = |per: &[u8]| Rate::parse(&[b"1/", per].concat()).unwrap();
        assert_eq!(rate(bytes), rate(format!("{ms}ms").as_bytes()));
    }
    if let Some(rate) = Rate::parse(bytes) {
        assert!(bytes[0].is_ascii_digit());
        if !bytes.contains(&b'/') {
            for second in [&b"/s"[..], b"/1s", b"/1000ms"] {
                assert_eq!(Rate::parse(&[bytes, second].concat()), Some(rate));
            }
        }
    }
    let mut calendar = Calendar::new();
    if let Some(zone) = &calendar.zone(bytes) {
        assert_eq!(calendar.zone(zone.name().as_bytes()).as_ref(), Some(zone));
    }
    for period in Period::ALL {
        if Anchor::parse(period, bytes).is_some() {
            assert!(matches!(period, Period::Week | Period::Month));
        }
        assert_eq!(
            Period::parse(bytes) == Some(period),
            bytes.eq_ignore_ascii_case(period.name().as_bytes())
        );
    }
}

/// Calendar periods follow one another without gap, whatever the zone, anchor and instant.
pub fn periods(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let mut calendar = Calendar::new();
    let (period, zone, anchor) = reader.calendar(&mut calendar);
    // The last periods before the end of all instants have no successor.
    let now_us = reader.int() % (MAX_INSTANT_US - 2 * MAX_DURATION_MS * 1000);
    let (start_ms, end_ms) = calendar.bounds(&zone, period, anchor, now_us);
    let now_ms = now_us / 1000;
    assert!((start_ms..end_ms).contains(&now_ms), "{start_ms}..{end_ms} at {now_ms}");
    assert!(end_ms - start_ms <= 367 * 86_400_000);
    // From a calendar that remembers nothing, too.
    let fresh = |at_ms: u64| Calendar::new().bounds(&zone, period, anchor, at_ms * 1000);
    assert_eq!(fresh(start_ms), (start_ms, end_ms));
    assert_eq!(fresh(end_ms - 1), (start_ms, end_ms));
    assert_eq!(fresh(end_ms).0, end_ms);
    if start_ms > 0 {
        assert_eq!(fresh(start_ms - 1).1, start_ms);
    }
}
