//! A full set of leases, and what a call on it costs.

use crate::{ADMIT_HELD, START_US, acquire, admit, claim, decode, encode, refuse};
use redis_limiter_core::law::Usage;
use redis_limiter_core::lease::{ClaimError, LeaseSet, MAX_LEASES, View, apply};
use redis_limiter_core::units::MAX_AMOUNT;
use redis_limiter_core::wire::Invalid;
use std::time::{Duration, Instant};

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
    let late_us = START_US + (full - 10) * 1000;
    assert_eq!(acquire(&mut state, MAX_AMOUNT, &new, late_us), admit(1));
    assert_eq!(state.as_ref().map(LeaseSet::len), Some(11));
    assert!(state.as_ref().map_or(0, LeaseSet::heap_bytes) < 4096);
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
        assert_eq!(view.renew(&n.to_be_bytes(), 1).0, 1);
    });
}
