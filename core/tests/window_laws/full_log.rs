//! Logs at their bounds.

use crate::server::{Mode, Server};
use redis_limiter_core::law::{Ask, Charging, Outcome, Overflow, Usage, decide};
use redis_limiter_core::units::MAX_AMOUNT;
use redis_limiter_core::window::{Fixed, Log, MAX_ENTRIES, Sliding, log};
use redis_limiter_core::wire::{Sink, Source};
use std::time::{Duration, Instant};

const LENGTH_MS: u64 = 100_000;
const START_MS: u64 = 1_700_000_000_000;

/// One unit a millisecond; the last at `START_MS + MAX_ENTRIES`.
fn full() -> Log {
    let mut bytes = Vec::new();
    bytes.put_int(MAX_ENTRIES as u64);
    bytes.put_int(START_MS + 1);
    bytes.put_int(1);
    for _ in 1..MAX_ENTRIES {
        bytes.put_int(1);
        bytes.put_int(1);
    }
    Log::decode(&mut Source::new(&bytes)).unwrap()
}

fn us_after(ms: usize) -> u64 {
    (START_MS + ms as u64) * 1000
}

#[test]
fn forced_units_beyond_join_the_newest_entry() {
    let mut state = Some(full());
    let now_us = us_after(MAX_ENTRIES + 7);
    let view = log::View::new(state.as_ref(), LENGTH_MS, now_us);
    let limit = MAX_ENTRIES as u64;
    let wait_ms = i64::try_from(LENGTH_MS).unwrap() - i64::try_from(MAX_ENTRIES).unwrap() - 6;
    let refused = Outcome::Refuse { retry_after_ms: wait_ms };
    assert_eq!(decide(&view, limit, &Ask::whole(1)), Ok(refused));
    let delta = view.charge(3);
    assert!(!view.grows(&delta));
    log::apply(&mut state, LENGTH_MS, &delta, now_us).unwrap();
    let state = state.unwrap();
    assert_eq!(state.entries(), MAX_ENTRIES);
    let view = log::View::new(Some(&state), LENGTH_MS, now_us);
    assert_eq!(view.used(), limit + 3);
    assert_eq!(view.wait_us(4), (LENGTH_MS - 8) * 1000);
    assert_eq!(view.wait_us(3), (LENGTH_MS - 7) * 1000);
}

#[test]
fn a_full_log_takes_again_when_its_oldest_entry_is_free() {
    let mut state = Some(full());
    let now_us = (START_MS + 1 + LENGTH_MS) * 1000;
    let view = log::View::new(state.as_ref(), LENGTH_MS, now_us);
    let delta = view.charge(1);
    assert!(!view.grows(&delta), "one goes, one comes");
    log::apply(&mut state, LENGTH_MS, &delta, now_us).unwrap();
    assert_eq!(state, {
        let mut server = Server::<Log>::new(LENGTH_MS);
        (2..=MAX_ENTRIES).for_each(|ms| server_force(&mut server, us_after(ms)));
        server_force(&mut server, now_us);
        server.primary
    });
}

/// One unit straight into the primary: the checks of [`Server`] walk the log.
fn server_force(server: &mut Server<Log>, now_us: u64) {
    let delta = log::View::new(server.primary.as_ref(), LENGTH_MS, now_us).charge(1);
    log::apply(&mut server.primary, LENGTH_MS, &delta, now_us).unwrap();
}

#[test]
fn it_says_when_it_grows() {
    let mut state = None;
    for (at, expected) in [(1, true), (1, false), (2, true), (5, true), (101, false), (300, false)]
    {
        let view = log::View::new(state.as_ref(), 100, us_after(at));
        let delta = view.charge(1);
        assert_eq!(view.grows(&delta), expected, "{at}");
        let before = state.as_ref().map_or(0, Log::entries);
        log::apply(&mut state, 100, &delta, us_after(at)).unwrap();
        assert_eq!(state.as_ref().map_or(0, Log::entries) > before, expected, "{at}");
        let view = log::View::new(state.as_ref(), 100, us_after(at));
        let refund = view.refund(1, 0);
        assert!(!view.grows(&refund.unwrap()));
    }
}

/// Each of these would take minutes, not milliseconds, if a call walked the log.
#[test]
fn no_call_walks_the_log() {
    let started = Instant::now();
    let mut state = Some(full());
    let now_us = us_after(MAX_ENTRIES);
    let past_us = us_after(MAX_ENTRIES - 10);
    let mut sum = 0;
    for target in (0..MAX_ENTRIES as u64).rev() {
        // Refused, seen by a slow clock, seen when half of it is free.
        let view = log::View::new(state.as_ref(), LENGTH_MS, now_us);
        sum += view.wait_us(target) + view.reset_us();
        let view = log::View::new(state.as_ref(), LENGTH_MS, past_us);
        sum += view.wait_us(target) + view.used();
        let half_us = us_after(MAX_ENTRIES / 2) + LENGTH_MS * 1000;
        let view = log::View::new(state.as_ref(), LENGTH_MS, half_us);
        assert_eq!(view.used(), MAX_ENTRIES as u64 / 2);
        sum += view.wait_us(target);
    }
    assert!(sum > 0);
    for left in (0..MAX_ENTRIES).rev() {
        let view = log::View::new(state.as_ref(), LENGTH_MS, now_us);
        let delta = view.refund(1, 0).unwrap();
        log::apply(&mut state, LENGTH_MS, &delta, now_us).unwrap();
        assert_eq!(state.as_ref().map_or(0, Log::entries), left);
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn memory_shrinks_with_the_log() {
    let mut state = Some(full());
    let heap = |state: &Option<Log>| state.as_ref().map_or(0, Log::heap_bytes);
    assert!(heap(&state) >= MAX_ENTRIES * 16 && heap(&state) <= MAX_ENTRIES * 32);
    for left in [30_000, 5_000, 100, 1] {
        let now_us = us_after(MAX_ENTRIES - left) + LENGTH_MS * 1000;
        let view = log::View::new(state.as_ref(), LENGTH_MS, now_us);
        let delta = view.refund(1, 0).unwrap();
        log::apply(&mut state, LENGTH_MS, &delta, now_us).unwrap();
        assert_eq!(state.as_ref().map_or(0, Log::entries), left - 1);
        assert!(heap(&state) <= (left * 4).max(64) * 16, "{} bytes for {left}", heap(&state));
    }
}

#[test]
fn running_sums_wrap_round() {
    // Each window forces as much as can be counted: 2^11 of them pass 2^64.
    let mut server = Server::<Log>::new(16);
    for call in 0..10_000 {
        let now_us = us_after(call * 8);
        let used = log::View::new(server.primary.as_ref(), 16, now_us).used();
        server.force((MAX_AMOUNT - used).min(MAX_AMOUNT / 2 + 1), now_us);
        let view = log::View::new(server.primary.as_ref(), 16, now_us);
        assert_eq!(view.used(), if call == 0 { MAX_AMOUNT / 2 + 1 } else { MAX_AMOUNT });
    }
}

#[test]
fn nothing_counts_above_the_largest_amount() {
    fn check<M: Mode>() {
        let mut server = Server::<M>::new(1000);
        server.force(MAX_AMOUNT, 5000);
        for now_us in [0, 5000, 500_000] {
            let view = M::view(server.primary.as_ref(), 1000, now_us);
            let force = Ask { cost: 1, leave: 0, charging: Charging::Force };
            assert_eq!(decide(&view, 0, &force), Err(Overflow));
            // Nor when a delta says so.
            let delta = M::charge(&view, 1);
            let mut state = server.primary.clone();
            assert!(M::apply(&mut state, 1000, &delta, now_us).is_err());
            assert_eq!(state, server.primary);
        }
    }
    check::<Fixed>();
    check::<Sliding>();
    check::<Log>();
}
