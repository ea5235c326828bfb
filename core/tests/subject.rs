//! One key with many limits: its replica, its encodings, forged bytes.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by them")]

mod support;

use proptest::prelude::*;
use proptest::sample::Index;
use redis_limiter_core::bucket::PackedBucket;
use redis_limiter_core::calendar::Calendar;
use redis_limiter_core::codec::{Decoded, decode, decode_whole, encode_effect, encode_whole};
use redis_limiter_core::law::{Ask, Charging};
use redis_limiter_core::layers::{Changes, Plan};
use redis_limiter_core::limit::{Identity, Layer, MAX_LIMITS, MAX_NAME, Params, Which};
use redis_limiter_core::state::Delta;
use redis_limiter_core::subject::{Change, Subject};
use redis_limiter_core::units::{MAX_AMOUNT, MAX_INSTANT_US, Rate};
use redis_limiter_core::window::{WindowMode, sliding};
use redis_limiter_core::wire::Sink as _;
use support::{Key, START_US, after, layers, step_us};

#[derive(Clone, Debug)]
enum Call {
    Take,
    Refund { age_us: u64 },
    Release { id: &'static [u8] },
    Renew { id: &'static [u8] },
    Reset,
}

/// A sliding window whose newest sub-window lies beyond the end of time is neither applied nor read.
#[test]
fn a_sliding_window_ends_with_time() {
    for length_ms in [16, 1000, 86_400_000, 31_622_400_000] {
        let identity =
            Identity { which: Which::Window { mode: WindowMode::Sliding, length_ms }, name: None };
        // An effect at 0 without an expiry; it ends with: a charge, sub-window 0, of 1 unit.
        let charge = Delta::Sliding(sliding::View::new(None, length_ms, 0).charge(1));
        let mut effect = Vec::new();
        encode_effect(0, 0, &[(identity, charge)], &mut effect);
        let identity = &effect[3..effect.len() - 3];
        let last = MAX_INSTANT_US / (length_ms * 1000).div_ceil(16);
        for (newest, valid) in [(last, true), (last + 1, false)] {
            let bytes = |head: &[u8], kind: &[u8]| {
                let mut bytes = [head, identity, kind].concat();
                // One counter, of one unit.
                [newest, 1, 1].into_iter().for_each(|int| bytes.put_int(int));
                bytes
            };
            let whole = bytes(&[2, 1], &[]);
            assert_eq!(decode(&whole).is_ok(), valid, "{length_ms} ms, {newest}");
            // The same window as an effect.
            let effect = bytes(&[1, 0, 0], &[2]);
            let applied = match decode(&effect) {
                Ok(Decoded::Effect { now_us, changes, .. }) => {
                    let mut slot = None;
                    Subject::apply(&mut slot, &changes, now_us).is_ok() && slot.is_some()
                }
                _ => false,
            };
            assert_eq!(applied, valid, "{length_ms} ms, {newest}");
        }
    }
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        12 => Just(Call::Take),
        2 => prop_oneof![Just(0), 0..100_000_000u64].prop_map(|age_us| Call::Refund { age_us }),
        1 => Just(Call::Release { id: b"1" }),
        1 => Just(Call::Renew { id: b"2" }),
        1 => Just(Call::Reset),
    ]
}

type Step = (i64, Call, Vec<Layer<'static>>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((step_us(), call(), layers(6)), 1..60)
}

/// The changes that a call decides, not yet applied.
fn decide<'k>(
    key: &'k mut Key,
    call: &Call,
    layers: &[Layer<'static>],
    now_us: u64,
) -> Vec<Change<'k>> {
    match call {
        Call::Release { id } => return key.release(id, now_us),
        Call::Renew { id } => return key.renew(id, now_us),
        Call::Reset => return vec![(layers[0].identity(), Delta::Forget)],
        Call::Take | Call::Refund { .. } => {}
    }
    let Ok(plan) = Plan::check(key.subject.as_ref(), layers, now_us, &mut key.calendar) else {
        return Vec::new();
    };
    let mut changes = Changes::new();
    match call {
        Call::Refund { age_us } => plan.refund(0, layers, *age_us, &mut changes),
        _ if plan.admits() => plan.charge(0, layers, &mut changes),
        _ => plan.settle(0, layers, &mut changes),
    }
    let new = changes.iter().map(|(identity, _)| *identity);
    let room = key.subject.as_ref().is_none_or(|subject| subject.has_room(new, now_us));
    if room { changes.to_vec() } else { Vec::new() }
}

fn effect(now_us: u64, changes: &[Change]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_effect(now_us, now_us / 1000 + 1, changes, &mut bytes);
    bytes
}

fn whole(subject: &Subject) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_whole(subject, &mut bytes);
    bytes
}

/// What a replica does with the bytes it gets.
fn replay(slot: &mut Option<Subject>, bytes: &[u8]) {
    let Ok(Decoded::Effect { now_us, changes, .. }) = decode(bytes) else {
        panic!("no effect: {bytes:?}");
    };
    assert_eq!(effect(now_us, &changes), bytes);
    Subject::apply(slot, &changes, now_us).expect("a decided change fits");
}

/// Plays `steps`, showing each effect and the key after it.
fn play(steps: &[Step], mut seen: impl FnMut(&[u8], &Key, u64)) -> Key {
    let (mut key, mut now_us) = (Key::default(), START_US);
    for (step, call, layers) in steps {
        now_us = after(now_us, *step);
        let before = key.subject.clone();
        let changes = decide(&mut key, call, layers, now_us);
        if changes.is_empty() {
            continue;
        }
        let (mut next, bytes) = (before, effect(now_us, &changes));
        Subject::apply(&mut next, &changes, now_us).expect("a decided change fits");
        key.subject = next;
        seen(&bytes, &key, now_us);
    }
    key
}

/// Asks everything that can be asked of a key, at any instant: nothing may panic.
fn ask_everything(subject: &Subject, layers: &[Layer<'static>], now_us: u64) {
    let mut calendar = Calendar::new();
    let _ = (subject.end_us(), subject.heap_bytes(), subject.free_effort());
    let _ = subject.live(now_us).count();
    if let Ok(plan) = Plan::check(Some(subject), layers, now_us, &mut calendar) {
        let _ = (plan.verdicts(layers, 0..layers.len()).count(), plan.deciding(layers));
        let [mut settle, mut refund, mut charge] = [const { Changes::new_const() }; 3];
        plan.settle(0, layers, &mut settle);
        plan.refund(0, layers, 1_000_000, &mut refund);
        plan.charge(0, layers, &mut charge);
        for changes in [settle, refund, charge] {
            let mut slot = Some(subject.clone());
            // A forged state may refuse what is charged on top of it, but never panics.
            let _ = Subject::apply(&mut slot, &changes, now_us);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_replica_that_sees_only_effects_is_equal_at_every_step(steps in steps()) {
        let mut replica = None;
        play(&steps, |bytes, key, now_us| {
            replay(&mut replica, bytes);
            assert_eq!(replica, key.subject);
            let Some(subject) = &key.subject else { return };
            let bytes = whole(subject);
            assert_eq!(decode_whole(&bytes).as_ref(), Ok(subject));
            assert_eq!(whole(replica.as_ref().expect("equal")), bytes);
            // What has ended is gone. The second byte is the number of limits.
            assert_eq!(subject.live(now_us).count(), usize::from(bytes[1]));
            assert!(subject.end_us() > now_us);
            // The next effect meets a loaded state as it meets this one.
            replica = decode_whole(&bytes).ok();
        });
    }

    #[test]
    fn whatever_is_decoded_is_in_its_one_form_and_harmless(
        steps in steps(),
        edits in prop::collection::vec((any::<Index>(), any::<u8>(), 0..5u8), 1..4),
        asked in layers(6),
        now_us in prop_oneof![Just(0), Just(START_US), Just(MAX_INSTANT_US), 0..=MAX_INSTANT_US],
    ) {
        let mut stored: Vec<Vec<u8>> = Vec::new();
        let key = play(&steps, |bytes, _, _| stored.push(bytes.to_vec()));
        stored.extend(key.subject.as_ref().map(whole));
        for mut bytes in stored {
            for (at, byte, edit) in &edits {
                mutate(&mut bytes, at, *byte, *edit);
            }
            check_decoded(&bytes, &key, &asked, now_us);
        }
    }

    #[test]
    fn random_bytes_do_no_harm(
        format in 1..=2u8, mut bytes in prop::collection::vec(any::<u8>(), 0..64), asked in layers(6),
    ) {
        check_decoded(&bytes, &Key::default(), &asked, START_US);
        bytes.insert(0, format);
        check_decoded(&bytes, &Key::default(), &asked, START_US);
    }
}

fn mutate(bytes: &mut Vec<u8>, at: &Index, byte: u8, edit: u8) {
    if bytes.is_empty() {
        return;
    }
    let at = at.index(bytes.len());
    match edit {
        0 => bytes[at] = byte,
        1 => bytes[at] ^= 1 << (byte % 8),
        2 => bytes.insert(at, byte),
        3 => drop(bytes.remove(at)),
        _ => bytes.truncate(at),
    }
}

fn check_decoded(bytes: &[u8], key: &Key, asked: &[Layer<'static>], now_us: u64) {
    match decode(bytes) {
        Ok(Decoded::Whole(subject)) => {
            assert_eq!(whole(&subject), bytes);
            ask_everything(&subject, asked, now_us);
        }
        Ok(Decoded::Effect { now_us: decided_us, expire_ms, changes }) => {
            let mut again = Vec::new();
            encode_effect(decided_us, expire_ms, &changes, &mut again);
            assert_eq!(again, bytes);
            let mut slot = key.subject.clone();
            let _ = Subject::apply(&mut slot, &changes, decided_us);
            if let Some(subject) = slot {
                let bytes = whole(&subject);
                assert_eq!(decode_whole(&bytes), Ok(subject.clone()));
                ask_everything(&subject, asked, now_us);
            }
        }
        Err(_) => {}
    }
}

fn bucket<'a>(rate: &str, name: Option<&'a [u8]>) -> Layer<'a> {
    let rate = Rate::parse(rate.as_bytes()).unwrap();
    Layer { params: Params::Bucket { rate, burst: 10 }, name, ask: Ask::whole(1) }
}

fn charge<'a>(slot: &Option<Subject>, layer: &Layer<'a>, now_us: u64) -> Changes<'a> {
    let layers = std::slice::from_ref(layer);
    let plan = Plan::check(slot.as_ref(), layers, now_us, &mut Calendar::new()).unwrap();
    let mut changes = Changes::new();
    plan.charge(0, layers, &mut changes);
    changes
}

#[test]
fn sixty_four_limits_and_no_more() {
    let names: Vec<String> = (0..=MAX_LIMITS).map(|n| n.to_string()).collect();
    let layers: Vec<_> = names.iter().map(|name| bucket("1", Some(name.as_bytes()))).collect();
    let mut slot = None;
    for layer in &layers[..MAX_LIMITS] {
        if let Some(subject) = &slot {
            assert!(Subject::has_room(subject, [layer.identity()].into_iter(), START_US));
        }
        let changes = charge(&slot, layer, START_US);
        Subject::apply(&mut slot, &changes, START_US).unwrap();
    }
    let full = slot.clone();
    let subject = slot.as_ref().unwrap();
    let (known, new) = (layers[0].identity(), layers[MAX_LIMITS].identity());
    assert!(subject.has_room([known].into_iter(), START_US));
    assert!(!subject.has_room([new].into_iter(), START_US));
    assert!(!subject.has_room([known, new].into_iter(), START_US));
    let one_too_many = charge(&slot, &layers[MAX_LIMITS], START_US);
    assert!(Subject::apply(&mut slot, &one_too_many, START_US).is_err());
    assert_eq!(slot, full);
    assert_eq!(decode_whole(&whole(slot.as_ref().unwrap())).ok(), full);
    // An encoding of 65 limits is refused.
    let mut bytes = whole(slot.as_ref().unwrap());
    bytes[1] += 1;
    bytes.extend(&effect(START_US, &one_too_many)[1 + 8 + 6..]);
    assert!(decode_whole(&bytes).is_err());

    // A second later all have ended and make room.
    let later_us = START_US + 1_001_000;
    assert!(slot.as_ref().unwrap().has_room([new].into_iter(), later_us));
    assert_eq!(slot.as_ref().unwrap().live(later_us).count(), 0);
    let changes = charge(&slot, &layers[MAX_LIMITS], later_us);
    Subject::apply(&mut slot, &changes, later_us).unwrap();
    assert_eq!(slot.unwrap().live(later_us).count(), 1);
}

#[test]
fn a_bucket_outgrows_the_small_form_and_comes_back() {
    let (mut slot, mut twin) = (None, None);
    let (slow, fast) = (bucket("1", None), bucket("1000", None));
    let mut charge_both = |layer: &Layer, units, now_us| {
        let layer = Layer {
            ask: Ask { cost: units, charging: Charging::Force, ..layer.ask },
            ..layer.clone()
        };
        let changes = charge(&slot, &layer, now_us);
        Subject::apply(&mut slot, &changes, now_us).unwrap();
        // Beside another limit it never has the small form.
        let other = bucket("1/366d", Some(b"other"));
        for changes in [charge(&twin, &layer, now_us), charge(&twin, &other, now_us)] {
            Subject::apply(&mut twin, &changes, now_us).unwrap();
        }
        assert_eq!(slot.as_ref().unwrap().bucket(), twin.as_ref().unwrap().bucket());
        assert_eq!(decode_whole(&whole(slot.as_ref().unwrap())).ok(), slot);
        matches!(slot, Some(Subject::One(_)))
    };
    assert!(charge_both(&slow, 1_000, START_US));
    assert!(!charge_both(&slow, 1 << 20, START_US + 1));
    assert!(!charge_both(&slow, 1, START_US + 2));
    assert!(charge_both(&fast, 1, START_US + 1_000_000_000));
}

#[test]
fn the_common_key_is_small_and_stays_so() {
    assert_eq!(size_of::<Subject>(), 16);
    assert_eq!(size_of::<Option<PackedBucket>>(), 24);
    let (mut slot, common, named) = (None, bucket("1", None), bucket("1/366d", Some(b"n")));
    let changes = charge(&slot, &common, START_US);
    Subject::apply(&mut slot, &changes, START_US).unwrap();
    assert!(matches!(slot, Some(Subject::One(_))));
    let changes = charge(&slot, &named, START_US);
    Subject::apply(&mut slot, &changes, START_US).unwrap();
    assert!(matches!(slot, Some(Subject::Many(_))));
    // Forgetting the other limit makes it small again, forgetting all leaves nothing.
    Subject::apply(&mut slot, &[(named.identity(), Delta::Forget)], START_US).unwrap();
    assert!(matches!(slot, Some(Subject::One(_))));
    Subject::apply(&mut slot, &[(common.identity(), Delta::Forget)], START_US).unwrap();
    assert_eq!(slot, None);
    Subject::apply(&mut slot, &[(common.identity(), Delta::Forget)], START_US).unwrap();
    assert_eq!(slot, None);
}

#[test]
fn limits_are_told_apart_by_kind_mode_length_period_and_name() {
    let window = |mode, length_ms| Which::Window { mode, length_ms };
    let which = [
        Which::Bucket,
        Which::Lease,
        window(WindowMode::Sliding, 1000),
        window(WindowMode::Fixed, 1000),
        window(WindowMode::Log, 1000),
        window(WindowMode::Log, 1001),
        Which::Quota(redis_limiter_core::calendar::Period::Day),
        Which::Quota(redis_limiter_core::calendar::Period::Month),
    ];
    let long = [0xff; MAX_NAME];
    let names: [Option<&[u8]>; 4] = [None, Some(b"a"), Some(b"b"), Some(&long)];
    let all: Vec<Identity> =
        which.iter().flat_map(|&which| names.map(|name| Identity { which, name })).collect();
    let changes: Vec<Change> = all.iter().map(|&identity| (identity, Delta::Forget)).collect();
    let bytes = effect(START_US, &changes);
    let Ok(Decoded::Effect { changes: decoded, .. }) = decode(&bytes) else { panic!() };
    assert_eq!(decoded, changes);
    for (n, identity) in all.iter().enumerate() {
        assert!(all[..n].iter().all(|other| other != identity));
    }
    // One limit twice in an effect is no effect.
    assert!(decode(&effect(START_US, &[changes[0].clone(), changes[0].clone()])).is_err());
    assert!(decode(&effect(START_US, &[])).is_err());
}

#[test]
fn the_common_effect_takes_at_most_44_bytes() {
    // Debts of centuries take two bytes more.
    let rate = Rate::parse(b"1000000000").unwrap();
    for burst in [1, 1_000_000, MAX_AMOUNT] {
        for now_us in [0, START_US + 13, MAX_INSTANT_US] {
            let layer = Layer {
                params: Params::Bucket { rate, burst },
                name: None,
                ask: Ask { cost: burst, leave: 0, charging: Charging::Whole },
            };
            let changes = charge(&None, &layer, now_us);
            let mut bytes = Vec::new();
            encode_effect(now_us, now_us / 1000 + 20_000_000_000, &changes, &mut bytes);
            assert!(bytes.len() <= 44, "{}", bytes.len());
        }
    }
}
