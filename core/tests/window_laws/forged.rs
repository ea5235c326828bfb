//! Bytes from anywhere: what is accepted is canonical, and nothing that is accepted does harm.

use crate::server::{Mode, Server};
use proptest::prelude::*;
use redis_limiter_core::law::Usage;
use redis_limiter_core::units::MAX_AMOUNT;
use redis_limiter_core::window::{Fixed, Log, Sliding};
use redis_limiter_core::wire::{Sink, Source};

/// Integers that matter, in their wire form, and now and then a loose byte.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let int = prop_oneof![
        8 => 0..20u64,
        2 => any::<u64>().prop_flat_map(|value| (0..64u32).prop_map(move |shift| value >> shift)),
        1 => Just(MAX_AMOUNT),
        1 => Just((1 << 54) - 1),
    ];
    let piece = prop_oneof![
        12 => int.prop_map(|value| {
            let mut bytes = Vec::new();
            bytes.put_int(value);
            bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 0..3),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn instant() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..100_000u64,
        1_700_000_000_000_000..1_700_000_000_100_000u64,
        any::<u64>()
    ]
}

/// What was read is written again as the same bytes.
fn decoded<T>(
    bytes: &[u8],
    decode: impl Fn(&mut Source) -> Result<T, redis_limiter_core::wire::Invalid>,
    encode: impl Fn(&T) -> Vec<u8>,
) -> Option<T> {
    let mut source = Source::new(bytes);
    let value = decode(&mut source).ok()?;
    let again = encode(&value);
    assert!(bytes.starts_with(&again));
    let mut rest = 0;
    while source.u8().is_ok() {
        rest += 1;
    }
    assert_eq!(again.len() + rest, bytes.len());
    Some(value)
}

fn harmless<M: Mode>(state: &[u8], delta: &[u8], length_ms: u64, now_us: u64) {
    let state = decoded(state, |source| M::decode(source, length_ms), M::encode);
    if let Some(state) = &state {
        assert!(state.end_us(length_ms) > 0);
    }
    let view = M::view(state.as_ref(), length_ms, now_us);
    let used = view.used();
    assert!(used <= MAX_AMOUNT);
    assert_eq!(view.wait_us(0), view.reset_us());
    assert!((used > 0) == (view.reset_us() > 0) && view.wait_us(used) == 0);
    assert_eq!(M::summary(&view).is_some(), used > 0);
    let own = [
        (used < MAX_AMOUNT).then(|| M::charge(&view, 1)),
        M::settle(&view),
        M::refund(&view, 2, 0),
        M::refund(&view, u64::MAX, 1),
    ];
    let forged = decoded(delta, M::decode_delta, M::encode_delta);
    for (delta, own) in own.into_iter().map(|own| (own, true)).chain([(forged, false)]) {
        let Some(delta) = delta else { continue };
        let mut next = state.clone();
        let applied = M::apply(&mut next, length_ms, &delta, now_us);
        if applied.is_err() {
            assert!(!own, "{delta:?}");
            assert_eq!(next, state, "unchanged when refused");
        }
        // What is stored can always be loaded again.
        if let Some(next) = next {
            let bytes = next.encode();
            assert_eq!(
                decoded(&bytes, |source| M::decode(source, length_ms), M::encode),
                Some(next)
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn bytes_from_anywhere(state in bytes(), delta in bytes(), length_ms in 16..2000u64, now_us in instant()) {
        harmless::<Fixed>(&state, &delta, length_ms, now_us);
        harmless::<Sliding>(&state, &delta, length_ms, now_us);
        harmless::<Log>(&state, &delta, length_ms, now_us);
    }

    /// Also with lengths that no command accepts.
    #[test]
    fn lengths_from_anywhere(state in bytes(), delta in bytes(), length_ms: u64, now_us in instant()) {
        fn no_panic<M: Mode>(state: &[u8], delta: &[u8], length_ms: u64, now_us: u64) {
            let mut state = M::decode(&mut Source::new(state), length_ms).ok();
            let view = M::view(state.as_ref(), length_ms, now_us);
            let _ = (view.used(), view.wait_us(3), M::summary(&view), M::refund(&view, 1, 0));
            let charge = M::charge(&view, u64::MAX);
            let settle = M::settle(&view);
            let _ = M::apply(&mut state, length_ms, &charge, now_us);
            settle.map(|settle| M::apply(&mut state, length_ms, &settle, now_us));
            if let Ok(delta) = M::decode_delta(&mut Source::new(delta)) {
                let _ = M::apply(&mut state, length_ms, &delta, now_us);
            }
        }
        for length_ms in [0, 1, length_ms] {
            no_panic::<Fixed>(&state, &delta, length_ms, now_us);
            no_panic::<Sliding>(&state, &delta, length_ms, now_us);
            no_panic::<Log>(&state, &delta, length_ms, now_us);
        }
    }
}

/// Every prefix and every changed byte of something real.
#[test]
fn damaged_states() {
    fn damage<M: Mode>() {
        let mut server = Server::<M>::new(1000);
        for (units, ms) in [(3, 5), (1, 6), (300, 400), (7, 900), (2, 999)] {
            server.force(units, 1_700_000_000_000_000 + ms * 1000);
        }
        let bytes = server.primary.unwrap().encode();
        for len in 0..bytes.len() {
            assert!(M::decode(&mut Source::new(&bytes[..len]), 1000).is_err());
        }
        for at in 0..bytes.len() {
            for byte in 0..=255 {
                let mut damaged = bytes.clone();
                damaged[at] = byte;
                decoded(&damaged, |source| M::decode(source, 1000), M::encode);
            }
        }
    }
    damage::<Fixed>();
    damage::<Sliding>();
    damage::<Log>();
}

#[test]
fn states_that_no_call_could_have_stored() {
    fn refused<M: Mode>(ints: &[u64]) {
        let mut bytes = Vec::new();
        ints.iter().for_each(|&int| bytes.put_int(int));
        assert!(M::decode(&mut Source::new(&bytes), 16).is_err(), "{ints:?}");
    }
    refused::<Fixed>(&[0, 5]);
    refused::<Fixed>(&[MAX_AMOUNT + 1, 5]);
    refused::<Fixed>(&[1, 1 << 54]);
    refused::<Sliding>(&[5, 0]);
    refused::<Sliding>(&[5, 2, 0, 1]);
    refused::<Sliding>(&[5, 2, 1, 0]);
    refused::<Sliding>(&[5, 2, MAX_AMOUNT, 1]);
    refused::<Sliding>(&[1 << 54, 1, 1]);
    refused::<Sliding>(&[[5, 18].as_slice(), &[1; 18]].concat());
    refused::<Log>(&[0]);
    refused::<Log>(&[65_537, 1, 1]);
    refused::<Log>(&[1, 5, 0]);
    refused::<Log>(&[2, 5, 1, 0, 1]);
    refused::<Log>(&[2, 5, MAX_AMOUNT, 1, 1]);
    refused::<Log>(&[1, 1 << 54, 1]);
}
