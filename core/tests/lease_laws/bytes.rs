//! Encodings: canonical, strict, and total on any bytes.

use crate::{START_US, acquire, claim, decode, encode};
use proptest::prelude::*;
use redis_limiter_core::lease::{Delta, LeaseSet, MAX_ID_BYTES, View, apply};
use redis_limiter_core::units::{MAX_AMOUNT, MAX_DURATION_MS};
use redis_limiter_core::wire::{Invalid, Sink, Source};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

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

#[test]
fn a_delta_that_no_call_could_have_decided_is_invalid() {
    let decode = |bytes: &[u8]| {
        let mut source = Source::new(bytes);
        Delta::decode(&mut source).and_then(|delta| source.finish().map(|()| delta))
    };
    let hold = |new| Delta::Hold { id: b"a"[..].into(), slots: 2, end_us: 9, new };
    assert_eq!(decode(&[0, 1, b'a', 2, 9]), Ok(hold(false)));
    assert_eq!(decode(&[1, 1, b'a', 2, 9]), Ok(hold(true)));
    assert_eq!(
        decode(&[2, 2, 1, b'a', 1, b'b']),
        Ok(Delta::Release(vec![b"a"[..].into(), b"b"[..].into()]))
    );
    assert_eq!(decode(&[3]), Ok(Delta::Settle));
    for bad in [
        &[][..],
        &[4],
        &[1, 0, 2, 9],            // no id
        &[1, 1, b'a', 0, 9],      // no slots
        &[1, 1, b'a', 2, 0],      // no end
        &[1, 1, b'a', 2, 9, 0],   // something left over
        &[1, 129, 1, b'a', 2, 9], // an id of 129 bytes
        &[2, 0],                  // nobody released
        &[2, 2, 1, b'a', 1, b'a'],
        &[2, 2, 1, b'b', 1, b'a'],
        &[2, 2, 1, b'a'],
        &[2, 0x81, 0x80, 4, 1, b'a'], // 65,537 of them
    ] {
        assert_eq!(decode(bad), Err(Invalid), "{bad:?}");
    }
}
