//! RL.WINDOW in its three modes, on a server whose clock the test turns.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use support::*;

#[test]
fn the_three_modes_are_limits_of_their_own() {
    needs_clock!();
    let still = Still::at_ms(NOON_MS + 1000);
    let mut con = still.server.connection();
    con.expect(&[
        ("RL.WINDOW k 1m 3 2", [1, 3, 1, 0, 62_750]),
        ("RL.WINDOW k 1m 3 2", [0, 3, 1, 62_750, 62_750]),
        ("RL.WINDOW k 1m 3 2 sliding", [0, 3, 1, 62_750, 62_750]),
        ("RL.WINDOW k 60s 3 1", [1, 3, 0, 0, 62_750]),
        ("RL.WINDOW k 60000ms 3 1", [0, 3, 0, 62_750, 62_750]),
        ("RL.WINDOW k 1m 3 FIXED", [1, 3, 2, 0, 60_000]),
        ("RL.WINDOW k 1m 3 LOG", [1, 3, 2, 0, 60_000]),
        ("RL.WINDOW k 61s 3 LOG", [1, 3, 2, 0, 61_000]),
        ("RL.WINDOW k 1m 3 LOG AS x", [1, 3, 2, 0, 60_000]),
        ("RL.WINDOW k 1m 3 1 as x log", [1, 3, 1, 0, 60_000]),
    ]);
    assert_eq!(con.number("EXISTS k"), 1);
}

#[test]
fn fixed_opens_with_the_first_unit_and_ends_at_once() {
    needs_clock!();
    let still = Still::at_ms(NOON_MS + 1234);
    let mut con = still.server.connection();
    con.expect(&[("RL.WINDOW k 10s 5 0 FIXED", [1, 5, 5, 0, 0])]);
    assert_eq!(con.number("EXISTS k"), 0, "a call of cost 0 opens nothing");
    con.expect(&[("RL.WINDOW k 10s 5 2 FIXED", [1, 5, 3, 0, 10_000])]);
    still.clock.advance_ms(9_999);
    con.expect(&[
        ("RL.WINDOW k 10s 5 3 FIXED", [1, 5, 0, 0, 1]),
        ("RL.WINDOW k 10s 5 1 FIXED", [0, 5, 0, 1, 1]),
    ]);
    still.clock.advance_ms(1);
    con.expect(&[("RL.WINDOW k 10s 5 5 FIXED", [1, 5, 0, 0, 10_000])]);
}

#[test]
fn log_is_exact_and_rounds_its_stamps_up() {
    needs_clock!();
    let still = Still::at_us(NOON_MS * 1000 + 1);
    let mut con = still.server.connection();
    con.expect(&[
        ("RL.WINDOW k 10s 2 LOG", [1, 2, 1, 0, 10_001]),
        ("RL.WINDOW k 10s 2 LOG", [1, 2, 0, 0, 10_001]),
        ("RL.WINDOW k 10s 2 LOG", [0, 2, 0, 10_001, 10_001]),
    ]);
    still.clock.advance_us(10_000_998);
    con.expect(&[("RL.WINDOW k 10s 2 LOG", [0, 2, 0, 1, 1])]);
    still.clock.advance_us(1);
    con.expect(&[("RL.WINDOW k 10s 2 LOG", [1, 2, 1, 0, 10_000])]);
}

#[test]
fn keeps_every_promise_to_the_millisecond() {
    needs_clock!();
    for mode in ["SLIDING", "FIXED", "LOG"] {
        for window in ["16ms", "17ms", "1s", "1m", "1d", "366d"] {
            let still = Still::at_us(NOON_MS * 1000 + 617);
            let mut con = still.server.connection();
            for refused in
                ["10 1", "10 3", "10 10", "10 1 LEAVE 2", "10 4 UPTO", "4 0", "8 1", "10 0 LEAVE 1"]
            {
                let call = |tail: &str| format!("RL.WINDOW k {window} {tail} {mode}");
                con.ask("DEL k");
                for cost in [1, 2, 3, 4] {
                    con.ask(&call(&format!("20 {cost} FORCE")));
                    still.clock.advance_us(3_777);
                }
                let again = call(refused);
                // In the shortest windows some of it is free already.
                if con.five(&again)[0] == 0 {
                    still.keeps_promise(&mut con, &again);
                }
            }
        }
    }
}

#[test]
fn never_admits_more_than_the_limit_in_any_span() {
    needs_clock!();
    const SPAN_US: u64 = 16_000;
    for mode in ["SLIDING", "LOG"] {
        let still = Still::at_us(NOON_MS * 1000 + 250);
        let mut con = still.server.connection();
        let mut admitted = Vec::new();
        let mut step_us = 1_u64;
        for _ in 0..1500 {
            let [allowed, .., retry_ms, _] = con.five(&format!("RL.WINDOW k 16ms 4 {mode}"));
            if allowed == 1 {
                admitted.push(still.clock.now_us());
            } else {
                // The oldest four that count have to be free first, and soon after they are.
                let oldest_us = admitted[admitted.len() - 4];
                let due_us = still.clock.now_us() + u64::try_from(retry_ms).unwrap() * 1000;
                assert!(due_us >= oldest_us + SPAN_US, "{mode}: too early");
                assert!(due_us <= oldest_us + SPAN_US + 2000, "{mode}: too late");
            }
            step_us = step_us * 48_271 % 2_147_483_647;
            still.clock.advance_us(step_us % 3_500);
        }
        for (first, from_us) in admitted.iter().enumerate() {
            let span = admitted[first..].iter().take_while(|&&at_us| at_us < from_us + SPAN_US);
            assert!(span.count() <= 4, "{mode}: more than 4 from {from_us} on");
        }
        assert!(admitted.len() > 300, "{mode}: {} admitted", admitted.len());
    }
}

#[test]
fn options_work_in_every_mode() {
    needs_clock!();
    for mode in ["SLIDING", "FIXED", "LOG"] {
        // On the grid of every window's sub-windows, so that all modes answer alike but SLIDING's
        // sub-window.
        let still = Still::at_ms(NOON_MS);
        let mut con = still.server.connection();
        let reset = if mode == "SLIDING" { 17_000 } else { 16_000 };
        let mut expect = |tail: &str, answer: [i64; 5]| {
            con.expect(&[(&format!("RL.WINDOW k 16s {tail} {mode}"), answer)]);
        };
        expect("10 0", [1, 10, 10, 0, 0]);
        expect("0 0", [0, 0, 0, -1, 0]);
        expect("0 1", [0, 0, 0, -1, 0]);
        expect("10 11", [0, 10, 10, -1, 0]);
        expect("10 1 LEAVE 10", [0, 10, 10, -1, 0]);
        expect("10 9 UPTO LEAVE 10", [0, 10, 10, -1, 0]);
        expect("10 9 UPTO LEAVE 6", [4, 10, 6, 0, reset]);
        expect("10 1 LEAVE 6", [0, 10, 6, reset, reset]);
        expect("10 0 LEAVE 7", [0, 10, 6, reset, reset]);
        expect("10 99 UPTO", [6, 10, 0, 0, reset]);
        expect("10 99 UPTO", [0, 10, 0, reset, reset]);
        expect("10 0", [1, 10, 0, 0, reset]);
        expect("10 5 FORCE", [1, 10, 0, 0, reset]);
        expect("10 0", [0, 10, 0, reset, reset]);
        expect("20 0", [1, 20, 5, 0, reset]);
        expect("0 0 FORCE", [1, 0, 0, 0, reset]);
        expect("12 1", [0, 12, 0, reset, reset]);
    }
}

#[test]
fn a_debt_ends_with_its_window() {
    needs_clock!();
    for mode in ["SLIDING", "FIXED", "LOG"] {
        let still = Still::at_noon();
        let mut con = still.server.connection();
        con.ask(&format!("RL.WINDOW k 16s 3 1000000 FORCE {mode}"));
        let line = format!("RL.WINDOW k 16s 3 3 {mode}");
        let wait_ms = still.keeps_promise(&mut con, &line);
        assert_eq!(wait_ms, if mode == "SLIDING" { 17_000 } else { 16_000 });
    }
}

#[test]
fn an_overflow_is_an_error_that_charges_nothing() {
    needs_clock!();
    for mode in ["SLIDING", "FIXED", "LOG"] {
        let still = Still::at_noon();
        let mut con = still.server.connection();
        con.ask(&format!("RL.WINDOW k 1m 9 {MAX} FORCE {mode}"));
        let before = still.server.digest("k");
        for advance_ms in [0, 10_000] {
            still.clock.advance_ms(advance_ms);
            let error = con.error(&format!("RL.WINDOW k 1m 9 1 FORCE {mode}"));
            assert!(error.starts_with("ERR the charge would lift"), "{error}");
            assert_eq!(still.server.digest("k"), before);
        }
        let free_ms = if mode == "SLIDING" { 53_750 } else { 50_000 };
        con.expect(&[(&format!("RL.WINDOW k 1m 9 {mode}"), [0, 9, 0, free_ms, free_ms])]);
    }
}

#[test]
fn a_log_has_at_most_65536_units_by_its_limit() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[("RL.WINDOW k 1m 65536 65536 LOG", [1, 65_536, 0, 0, 60_000])]);
    let error = con.error("RL.WINDOW k 1m 65537 LOG");
    assert!(error.starts_with("ERR limit of a LOG window"), "{error}");
    let error = con.error("RL.TAKE k WINDOW 1m 65537 LOG");
    assert!(error.starts_with("ERR limit of a LOG window"), "{error}");
    con.expect(&[("RL.WINDOW k 1m 65537 SLIDING", [1, 65_537, 65_536, 0, 63_750])]);
    assert!(con.error("RL.WINDOW k 15ms 5").starts_with("ERR window "));
}

#[test]
fn a_clock_that_steps_back_locks_nobody_out() {
    needs_clock!();
    for mode in ["SLIDING", "FIXED", "LOG"] {
        let still = Still::at_noon();
        let mut con = still.server.connection();
        let call = format!("RL.WINDOW k 16s 4 1 {mode}");
        let peek = format!("RL.PEEK k WINDOW 16s 4 {mode}");
        con.ask(&format!("RL.WINDOW k 16s 4 4 {mode}"));
        still.clock.step_us(-86_400_000_000);
        let before = still.server.digest("k");
        let answer = con.five(&peek);
        assert_eq!(answer[0], 0);
        assert!((15_000..=17_000).contains(&answer[3]), "{mode}: {answer:?}");
        assert_eq!(still.server.digest("k"), before);
        assert_eq!(con.five(&call), answer, "{mode}: the same call, after it moved");
        assert_ne!(still.server.digest("k"), before);
        still.keeps_promise(&mut con, &call);
    }
}
