//! The table of replies. Everything here that is not marked as a deviation was answered the same, to
//! the integer, by redis-cell 0.5.0 on the same standing clock.

use super::support::*;
use super::throttle;

/// Calls on a fresh key, in order: the arguments after the key, and the reply.
type Case = &'static [(&'static str, [i64; 5])];

/// With times long enough that the speed of the machine does not matter.
const CASES: &[Case] = &[
    // Quantity 1 is the default.
    &[("15 30 3600", [0, 16, 15, -1, 120]), ("15 30 3600 1", [0, 16, 14, -1, 240])],
    // Burst 0: one at a time.
    &[
        ("0 30 3600", [0, 1, 0, -1, 120]),
        ("0 30 3600", [1, 1, 0, 120, 120]),
        ("0 30 3600 0", [0, 1, 0, -1, 120]),
    ],
    // Quantity 0 looks, also at a key that does not exist.
    &[
        ("4 30 3600 0", [0, 5, 5, -1, 0]),
        ("4 30 3600 2", [0, 5, 3, -1, 240]),
        ("4 30 3600 0", [0, 5, 3, -1, 240]),
    ],
    // More than the limit never fits; more than there is fits later.
    &[
        ("4 30 3600 6", [1, 5, 5, -1, 0]),
        ("4 30 3600 5", [0, 5, 0, -1, 600]),
        ("4 30 3600 2", [1, 5, 0, 240, 600]),
        ("4 30 3600 6", [1, 5, 0, -1, 600]),
    ],
    // A quantity below 0 gives back.
    &[
        ("4 30 3600 4", [0, 5, 1, -1, 480]),
        ("4 30 3600 -3", [0, 5, 4, -1, 120]),
        ("4 30 3600 4", [0, 5, 0, -1, 600]),
    ],
    // A lowered max_burst: first what was used is waited off, and giving back is refused too as long
    // as too much would still be used.
    &[
        ("9 30 3600 8", [0, 10, 2, -1, 960]),
        ("1 30 3600", [1, 2, 0, 840, 960]),
        ("1 30 3600 0", [1, 2, 0, 720, 960]),
        ("1 30 3600 -2", [1, 2, 0, 480, 960]),
        ("1 30 3600 -6", [0, 2, 0, -1, 240]),
    ],
    // Limits below 1: nothing fits.
    &[("-1 30 60", [1, 0, 0, -1, 0]), ("-1 30 60 0", [0, 0, 0, -1, 0])],
    &[("-5 30 60", [1, -4, 0, -1, 0]), ("-5 30 60 0", [1, -4, 0, -1, 0])],
    // Integers as redis-cell reads them.
    &[("+5 030 3600 +1", [0, 6, 5, -1, 120]), ("-0 030 3600 -0", [0, 1, 0, -1, 120])],
    // Slower than RL.BUCKET can be told: one in two years, and in 292.
    &[("5 1 63072000", [0, 6, 5, -1, 63_072_000])],
    &[("0 1 9223372036", [0, 1, 0, -1, 9_223_372_036])],
    // Waits below a millisecond are no second: redis-cell rounds up from whole milliseconds.
    &[("9 5000 1", [0, 10, 9, -1, 0])],
    &[("15 9223372036854775807 9223372036854775807", [0, 16, 15, -1, 1])],
    // The smallest quantity.
    &[("15 30 60 -9223372036854775808", [0, 16, 16, -1, 0])],
];

/// Where redis-cell overflows, loses digits or fails, we answer what is right.
const DEVIATIONS: &[Case] = &[
    // More is given back than was used: an error there, and the key is left without an expiry.
    &[("4 30 3600 2", [0, 5, 3, -1, 240]), ("4 30 3600 -3", [0, 5, 5, -1, 0])],
    &[("4 30 3600 -1", [0, 5, 5, -1, 0])],
    // `remaining` is a quotient of floats of microseconds there: 10002, 0, 77662, 9223372036854775807.
    &[("9999 700 1", [0, 10_000, 9_999, -1, 1])],
    &[("15 1000000000 1", [0, 16, 15, -1, 0])],
    &[("1000000 1 60000", [0, 1_000_001, 1_000_000, -1, 60_000])],
    &[("9007199254740990 1000000000 1", [0, 9_007_199_254_740_991, 9_007_199_254_740_990, -1, 0])],
    // The whole bucket lasts longer than 292 years: refused there.
    &[("5 1 9223372036", [0, 6, 5, -1, 9_223_372_036])],
    // The quantity wraps: charged there.
    &[("15 30 60 9223372036854775807", [1, 16, 16, -1, 0])],
];

#[test]
fn the_table() {
    let server = Server::start();
    let mut con = server.connection();
    for (number, case) in CASES.iter().chain(DEVIATIONS).enumerate() {
        for (args, reply) in *case {
            let shown = throttle(&mut con, &format!("key{number} {args}"));
            assert_eq!(shown, reply, "key{number} {args}");
        }
    }
}

#[test]
fn waits_are_rounded_up_to_seconds() {
    needs_clock!();
    let clock = Clock::new(1_700_000_000_000_000);
    let server = Server::builder().clock(&clock).start();
    let mut con = server.connection();
    // Ten a second; the time since the first call (µs), then the reply.
    for (at_us, reply) in [
        (0, [0, 2, 1, -1, 1]),
        (0, [0, 2, 0, -1, 1]),
        (0, [1, 2, 0, 1, 1]),
        (99_000, [1, 2, 0, 1, 1]),
        // Less than a millisecond.
        (99_001, [1, 2, 0, 0, 1]),
        (100_000, [0, 2, 0, -1, 1]),
        (199_999, [1, 2, 0, 0, 1]),
        (300_000, [0, 2, 1, -1, 1]),
    ] {
        clock.set_us(1_700_000_000_000_000 + at_us);
        assert_eq!(throttle(&mut con, "fast 1 10 1"), reply, "{at_us}");
    }
    // 7 in a minute: 8.571428… s each.
    let start_us = clock.now_us();
    for (at_us, reply) in [
        (0, [0, 1, 0, -1, 9]),
        (570_000, [1, 1, 0, 9, 9]),
        (571_000, [1, 1, 0, 8, 8]),
        (8_000_000, [1, 1, 0, 1, 1]),
        (8_571_428, [1, 1, 0, 0, 0]),
        (8_571_429, [0, 1, 0, -1, 9]),
    ] {
        clock.set_us(start_us + at_us);
        assert_eq!(throttle(&mut con, "slow 0 7 60"), reply, "{at_us}");
    }
}

#[test]
fn the_same_call_succeeds_after_the_seconds_it_was_told() {
    needs_clock!();
    let clock = Clock::new(1_700_000_000_123_456);
    let server = Server::builder().clock(&clock).start();
    let mut con = server.connection();
    throttle(&mut con, "k 9 3 7 10");
    for quantity in [1, 4, 10, 3] {
        let call = format!("k 9 3 7 {quantity}");
        let refused = throttle(&mut con, &call);
        assert_eq!((refused[0], refused[2]), (1, 0));
        // The part of a millisecond that the seconds leave out.
        clock.advance_ms(u64::try_from(refused[3]).unwrap() * 1_000 + 1);
        let allowed = throttle(&mut con, &call);
        assert_eq!(allowed[0], 0);
        throttle(&mut con, &format!("k 9 3 7 {}", allowed[2]));
    }
}

#[test]
fn what_cannot_be_answered_is_an_error() {
    let server = Server::start();
    let mut con = server.connection();
    let burst = "ERR max_burst must be an integer up to 9007199254740990";
    let rate = "ERR count and period (seconds) must be integers of at least 1";
    let quantity = "ERR quantity must be an integer";
    for (args, error) in [
        ("x 30 60", burst),
        ("1.5 30 60", burst),
        ("9007199254740991 30 60", burst),
        ("9223372036854775807 30 60", burst),
        ("-9223372036854775808 30 60", burst),
        ("15 x 60", rate),
        ("15 0 60", rate),
        ("15 -30 60", rate),
        ("15 30 0", rate),
        ("15 30 -60", rate),
        ("15 -30 -60", rate),
        ("15 30 60s", rate),
        ("15 1000000001 1", rate),
        ("15 1 9223372037", rate),
        ("15 30 9223372036854775807", rate),
        ("15 9223372036854775807 1", rate),
        ("15 30 60 x", quantity),
        ("15 30 60 1.0", quantity),
        ("15 30 60 9223372036854775808", quantity),
        ("15 30 60 \u{661}", quantity),
        ("15 30 60 1 1", "ERR syntax error, usage: CL.THROTTLE key max_burst count period"),
        ("15 30", "ERR wrong number of arguments"),
    ] {
        let list: Vec<&str> = args.split(' ').collect();
        let shown = err!(con, "CL.THROTTLE", "k", &list);
        assert!(shown.starts_with(error), "{args}: {shown}");
    }
    for key in [&b""[..], b"\xff\xfe", b"a\0b"] {
        assert_eq!(ints(&cmd!(con, "CL.THROTTLE", key, 0, 1, 3600)), [0, 1, 0, -1, 3600]);
    }
    let garbage: &[u8] = b"\xff";
    assert!(err!(con, "CL.THROTTLE", "k", garbage, 1, 1).starts_with(burst));
    assert_eq!(int(&cmd!(con, "EXISTS", "k")), 0);
}
