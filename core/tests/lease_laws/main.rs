//! Leases: the rules one by one, against a naive list, as bytes, and many of them.
#![allow(clippy::unwrap_used)] // helpers of tests

mod bytes;
mod many;
mod model;

use redis_limiter_core::law::{Outcome, Usage};
use redis_limiter_core::lease::{Claim, ClaimError, Delta, LeaseSet, View, apply};
use redis_limiter_core::units::{MAX_AMOUNT, MAX_DURATION_MS, MAX_INSTANT_US};
use redis_limiter_core::wire::{Invalid, Source};

const START_US: u64 = 1_700_000_000_000_000;
const ADMIT_HELD: Result<Outcome, ClaimError> = Ok(Outcome::Admit { units: 0, wait_ms: 0 });

fn admit(units: u64) -> Result<Outcome, ClaimError> {
    Ok(Outcome::Admit { units, wait_ms: 0 })
}

fn refuse(retry_after_ms: i64) -> Result<Outcome, ClaimError> {
    Ok(Outcome::Refuse { retry_after_ms })
}

fn claim(id: &[u8], slots: u64, ttl_ms: u64) -> Claim<'_> {
    Claim { id: Some(id), slots, ttl_ms, nx: false }
}

/// Decides under `limit` and applies what follows, as a command does.
fn acquire(
    state: &mut Option<LeaseSet>,
    limit: u64,
    claim: &Claim,
    now_us: u64,
) -> Result<Outcome, ClaimError> {
    let view = View::new(state.as_ref(), now_us);
    let outcome = view.decide(limit, claim, 0, false);
    let delta = match outcome {
        Ok(Outcome::Admit { .. }) => view.charge(claim),
        _ => view.settle(),
    };
    if let Some(delta) = delta {
        apply(state, &delta, now_us).unwrap();
    }
    outcome
}
fn encode(set: &LeaseSet) -> Vec<u8> {
    let mut bytes = Vec::new();
    set.encode(&mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Result<LeaseSet, Invalid> {
    let mut source = Source::new(bytes);
    let set = LeaseSet::decode(&mut source)?;
    source.finish()?;
    Ok(set)
}

#[test]
fn a_dead_holder_frees_its_slots_at_its_ttl() {
    let mut state = None;
    assert_eq!(acquire(&mut state, 2, &claim(b"dead", 2, 30_000), START_US + 1), admit(2));
    assert_eq!(acquire(&mut state, 2, &claim(b"next", 1, 1000), START_US + 2), refuse(30_000));
    let end_us = START_US + 1 + 30_000_000;
    assert_eq!(acquire(&mut state, 2, &claim(b"next", 2, 1000), end_us - 1), refuse(1));
    assert_eq!(
        View::new(state.as_ref(), end_us - 1).renew(b"dead", 1).1.map(|d| d.grows()),
        Some(false)
    );
    assert_eq!(View::new(state.as_ref(), end_us).renew(b"dead", 1), (0, None));
    assert_eq!(View::new(state.as_ref(), end_us).release([&b"dead"[..]]), (0, None));
    assert_eq!(View::new(state.as_ref(), end_us).summary(), None);
    assert_eq!(acquire(&mut state, 2, &claim(b"next", 2, 1000), end_us), admit(2));
    assert_eq!(state.as_ref().map(LeaseSet::len), Some(1));
}

#[test]
fn a_renewal_that_changes_nothing_is_no_change() {
    let mut state = None;
    let held = claim(b"a", 2, 10);
    acquire(&mut state, 2, &held, START_US).unwrap();
    acquire(&mut state, 9, &claim(b"b", 1, 20), START_US).unwrap();
    let view = View::new(state.as_ref(), START_US);
    assert_eq!(view.renew(b"a", 10), (1, None));
    assert_eq!(view.decide(2, &held, 0, false), ADMIT_HELD);
    assert_eq!(view.charge(&held), None);
    assert!(view.renew(b"a", 11).1.is_some());
    // The same end from another instant, which is stored; before it the clock rule moves the end.
    assert!(View::new(state.as_ref(), START_US + 1000).renew(b"a", 9).1.is_some());
    assert!(View::new(state.as_ref(), START_US - 1000).renew(b"a", 11).1.is_some());
    assert!(View::new(state.as_ref(), START_US - 1000).renew(b"a", 10).1.is_some());
}

#[test]
fn a_held_id_keeps_its_slots() {
    let mut state = None;
    acquire(&mut state, 5, &claim(b"a", 3, 10), START_US).unwrap();
    acquire(&mut state, 5, &claim(b"b", 2, 20), START_US).unwrap();
    // Renewed, not charged twice, also above a lowered limit and whatever must be left.
    assert_eq!(acquire(&mut state, 1, &claim(b"a", 3, 15), START_US + 1000), ADMIT_HELD);
    let view = View::new(state.as_ref(), START_US + 1000);
    assert_eq!(view.used(), 5);
    assert_eq!(view.decide(5, &claim(b"a", 3, 1), 5, false), ADMIT_HELD);
    assert_eq!(view.wait_us(2), 15_000);
    // Another count, NX, a blocked plan, and one who only asks.
    assert_eq!(view.decide(9, &claim(b"a", 2, 1), 0, false), Err(ClaimError::OtherCount));
    assert_eq!(view.decide(9, &claim(b"a", 2, 1), 0, true), Err(ClaimError::OtherCount));
    assert_eq!(view.decide(0, &claim(b"a", 3, 1), 0, false), refuse(-1));
    assert_eq!(view.decide(0, &claim(b"a", 3, 1), 0, true), ADMIT_HELD);
    assert_eq!(view.decide(4, &claim(b"a", 0, 1), 0, false), refuse(15));
    assert_eq!(view.charge(&claim(b"a", 0, 1)), None);
    let nx = |id, slots, limit| {
        let claim = Claim { id: Some(id), slots, ttl_ms: 1, nx: true };
        view.decide(limit, &claim, 0, false)
    };
    assert_eq!(nx(b"a", 3, 9), refuse(15)); // its own end
    assert_eq!(nx(b"a", 3, 3), refuse(19)); // room, later than its end
    assert_eq!(nx(b"b", 2, 9), refuse(19));
    assert_eq!(nx(b"a", 3, 2), refuse(-1));
    assert_eq!(nx(b"c", 3, 9), admit(3));
    // A holder without an id, and FORCE.
    let peek = Claim { id: None, slots: 1, ttl_ms: 1, nx: false };
    assert_eq!(view.decide(5, &peek, 0, false), refuse(15));
    assert_eq!(view.decide(6, &peek, 0, false), admit(1));
    assert_eq!(view.decide(0, &peek, 0, true), admit(1));
    assert_eq!(view.charge(&peek), None);
    let most = claim(b"c", MAX_AMOUNT, 1);
    assert_eq!(view.decide(1, &most, 0, true), Err(ClaimError::Overflow));
}

#[test]
fn release_counts_what_was_held_once() {
    let mut state = None;
    acquire(&mut state, 5, &claim(b"a", 1, 10), START_US).unwrap();
    acquire(&mut state, 5, &claim(b"b", 1, 20), START_US).unwrap();
    let ids: [&[u8]; 5] = [b"b", b"stranger", b"a", b"b", b""];
    let (count, delta) = View::new(state.as_ref(), START_US + 10_000).release(ids);
    assert_eq!(count, 1); // a is over
    assert_eq!(delta, Some(Delta::Release(vec![b"b"[..].into()])));
    apply(&mut state, &delta.unwrap(), START_US + 10_000).unwrap();
    assert_eq!(state, None);
}

#[test]
fn the_clock_rule_moves_all_back() {
    let mut state = None;
    acquire(&mut state, 3, &claim(b"a", 1, 1000), START_US).unwrap();
    acquire(&mut state, 3, &claim(b"b", 2, 10), START_US + 5000).unwrap();
    let back_us = START_US - 3_600_000_000;
    let view = View::new(state.as_ref(), back_us);
    assert_eq!((view.used(), view.wait_us(1), view.reset_us()), (3, 10_000, 995_000));
    assert_eq!(view.settle(), Some(Delta::Settle));
    // A refusal moves them too, once.
    assert_eq!(acquire(&mut state, 3, &claim(b"c", 1, 10), back_us), refuse(10));
    assert_eq!(state.as_ref().unwrap().end_us(), back_us + 995_000);
    let view = View::new(state.as_ref(), back_us + 10_000);
    assert_eq!((view.used(), view.settle()), (1, None));
    // A time before 1970 plus a ttl, and one after the last instant, are no trouble.
    assert_eq!(acquire(&mut state, 3, &claim(b"a", 1, MAX_DURATION_MS), 0), ADMIT_HELD);
    assert_eq!(View::new(state.as_ref(), 0).reset_us(), MAX_DURATION_MS * 1000);
    acquire(&mut state, 3, &claim(b"z", 1, MAX_DURATION_MS), u64::MAX).unwrap();
    let last_us = MAX_INSTANT_US + MAX_DURATION_MS * 1000;
    assert_eq!(state.as_ref().unwrap().end_us(), last_us);
    assert_eq!(decode(&encode(state.as_ref().unwrap())).as_ref(), Ok(state.as_ref().unwrap()));
}
