//! The short form of the fuzz targets in `fuzz/`: the same laws, a bounded number of cases, made by a
//! strategy that knows what the bytes mean.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod laws;
mod reader;

use proptest::prelude::*;
use redis_limiter_core::codec::{encode_effect, encode_whole};
use redis_limiter_core::layers::{Changes, Plan};
use redis_limiter_core::subject::Subject;
use redis_limiter_core::wire::Sink;

/// Calls in the form that `reader` reads, without a state before them.
fn history() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![2 => 0..24u8, 1 => any::<u8>()], 0..400)
}

/// What a history of calls leaves: the whole state, and the effects that led there.
fn encodings(history: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = reader::Reader::new(history);
    let mut calendar = redis_limiter_core::calendar::Calendar::new();
    let (mut slot, mut encodings, mut now_us) = (None, Vec::new(), 1_700_000_000_000_000);
    while !reader.is_empty() {
        now_us = reader.instant_us(now_us);
        let force = reader.below(3) == 0;
        let layers = reader.layers(force, &mut calendar);
        let Ok(plan) = Plan::check(slot.as_ref(), &layers, now_us, &mut calendar) else { continue };
        let mut changes = Changes::new();
        if plan.admits() {
            plan.charge(0, &layers, &mut changes);
        } else {
            plan.settle(0, &layers, &mut changes);
        }
        drop(plan);
        if changes.is_empty() || Subject::apply(&mut slot, &changes, now_us).is_err() {
            continue;
        }
        let mut effect = Vec::new();
        encode_effect(now_us, now_us / 1000, &changes, &mut effect);
        encodings.push(effect);
    }
    if let Some(subject) = slot {
        let mut whole = Vec::new();
        encode_whole(&subject, &mut whole);
        encodings.insert(0, whole);
    }
    encodings
}

/// Encodings of real states and effects, some of them damaged.
fn damaged() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..4);
    (history(), damage).prop_map(|(history, damage)| {
        let mut encodings = encodings(&history);
        for (at, byte, how) in damage {
            let Some(total) = encodings.iter().map(Vec::len).sum::<usize>().checked_sub(1) else {
                break;
            };
            let mut at = at.index(total + 1);
            let bytes = encodings.iter_mut().find(|bytes| {
                let here = at < bytes.len();
                at -= if here { 0 } else { bytes.len() };
                here
            });
            let Some(bytes) = bytes else { continue };
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] = bytes[at].wrapping_add(1),
                2 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        encodings
    })
}

fn chunks(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.put(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_le_bytes());
        bytes.put(part);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn codec_of_damaged_encodings(encodings in damaged()) {
        encodings.iter().for_each(|bytes| laws::codec(bytes));
    }

    #[test]
    fn codec_of_any_bytes(format in 0..4u8, bytes: Vec<u8>) {
        laws::codec(&[&[format], &bytes[..]].concat());
    }

    #[test]
    fn effects_on_a_state(encodings in damaged()) {
        laws::effects(&chunks(&encodings));
    }

    #[test]
    fn effects_on_the_state_of_another_key(state in damaged(), effects in damaged()) {
        let state = state.into_iter().take(1);
        laws::effects(&chunks(&state.chain(effects).collect::<Vec<_>>()));
    }

    #[test]
    fn calls_on_nothing(history in history()) {
        laws::calls(&[&[0, 0], &history[..]].concat());
    }

    #[test]
    fn calls_on_a_damaged_state(state in damaged(), history in history()) {
        let state = chunks(&state[..state.len().min(1)]);
        laws::calls(&[state, history].concat());
    }

    #[test]
    fn units_of_near_misses(text in "[0-9]{0,18}[./]?[0-9]{0,8}/?[0-9]{0,12}(ms|s|m|h|d|w|x|)") {
        laws::units(text.as_bytes());
    }

    #[test]
    fn units_of_any_bytes(bytes: Vec<u8>) {
        laws::units(&bytes);
    }

    #[test]
    fn periods_anywhere(bytes: [u8; 11]) {
        laws::periods(&bytes);
    }
}

/// Files for the fuzz targets to start from, in folders of `RL_SEEDS`: `scripts/fuzz` asks for them.
#[test]
#[ignore = "writes files"]
fn seeds() {
    use proptest::strategy::ValueTree as _;
    let folder = std::path::PathBuf::from(std::env::var_os("RL_SEEDS").unwrap());
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sample = || damaged().new_tree(&mut runner).unwrap().current();
    let write = |target: &str, name: String, bytes: &[u8]| {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    };
    for n in 0..200 {
        let encodings = sample();
        write("effects", format!("seed-{n}"), &chunks(&encodings));
        write("calls", format!("seed-{n}"), &chunks(&encodings[..encodings.len().min(1)]));
        for (at, bytes) in encodings.iter().take(3).enumerate() {
            write("codec", format!("seed-{n}-{at}"), bytes);
        }
    }
    for text in ["50", "0.5", "300/1m", "10/100ms", "9007199254740991", "Europe/Berlin", "sun"] {
        write("units", format!("seed-{}", text.replace('/', "-")), text.as_bytes());
    }
}
