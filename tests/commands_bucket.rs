//! RL.BUCKET, on a server whose clock the test turns.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use support::*;

#[test]
fn starts_full_and_refills() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[
        ("RL.BUCKET k 1/1h 5", [1, 5, 4, 0, 3_600_000]),
        ("RL.BUCKET k 1/1h 5 4", [1, 5, 0, 0, 18_000_000]),
        ("RL.BUCKET k 1/1h 5", [0, 5, 0, 3_600_000, 18_000_000]),
        ("RL.BUCKET k 1/1h 5 6", [0, 5, 0, -1, 18_000_000]),
    ]);
    still.clock.advance_ms(3_599_999);
    con.expect(&[("RL.BUCKET k 1/1h 5", [0, 5, 0, 1, 14_400_001])]);
    still.clock.advance_ms(1);
    con.expect(&[("RL.BUCKET k 1/1h 5", [1, 5, 0, 0, 18_000_000])]);
    still.clock.advance_ms(18_000_000);
    con.expect(&[("RL.BUCKET k 1/1h 5 0", [1, 5, 5, 0, 0])]);
}

#[test]
fn keeps_every_promise_to_the_millisecond() {
    needs_clock!();
    // A fraction of a millisecond, so that rounding shows.
    let still = Still::at_us(NOON_MS * 1000 + 617);
    let mut con = still.server.connection();
    for (prepare, refused) in [
        ("1/1h 5 5", "1/1h 5"),
        ("7/3s 10 10", "7/3s 10 3"),
        ("7/3s 10 9", "7/3s 10 4 LEAVE 5"),
        ("0.5 1", "0.5 1"),
        ("0.000001 1", "0.000001 1"),
        ("1/366d 1", "1/366d 1"),
        ("1000000000 1 3000000000 FORCE", "1000000000 1"),
        ("3/7ms 100 100", "3/7ms 100 1 UPTO"),
        ("3/7ms 100 100", "3/7ms 100 60 UPTO LEAVE 37"),
        ("10 1 1 MAXWAIT 1h", "10 1 1 MAXWAIT 99ms"),
        ("1/3s 2 5 FORCE", "1/3s 2 2 MAXWAIT 1ms"),
        ("300/m 5 8 FORCE", "300/m 5 0"),
        ("300/m 5 5", "300/m 5 0 LEAVE 3"),
        ("3333/1d 9007199254740991 9007199254740991", "333/1s 9007199254740991 12345"),
        ("5 5 5", "1/1h 5 2"),
        ("1/1h 1000 900", "1/1h 10"),
    ] {
        con.ask("DEL k");
        con.ask(&format!("RL.BUCKET k {prepare}"));
        still.keeps_promise(&mut con, &format!("RL.BUCKET k {refused}"));
    }
}

#[test]
fn rates_are_written_in_many_ways() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    for (rate, reset_ms) in [
        ("5", 200),
        ("300/m", 200),
        ("300/1m", 200),
        ("18000/h", 200),
        ("0.5", 2000),
        ("0.000001", 1_000_000_000),
        ("10/100ms", 10),
        ("2/1w", 302_400_000),
        ("1/366d", 31_622_400_000),
        ("1000000000", 1),
        ("1000000/1ms", 1),
    ] {
        con.ask("DEL k");
        con.expect(&[(&format!("RL.BUCKET k {rate} 9"), [1, 9, 8, 0, reset_ms])]);
    }
}

#[test]
fn usage_carries_over_a_changed_rate_or_burst() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[
        ("RL.BUCKET k 1/1s 10 6", [1, 10, 4, 0, 6000]),
        ("RL.BUCKET k 1/1s 20 0", [1, 20, 14, 0, 6000]),
        ("RL.BUCKET k 1/1s 5", [0, 5, 0, 2000, 6000]),
        ("RL.BUCKET k 1/1s 7", [1, 7, 0, 0, 7000]),
    ]);
    // All the time since the last charge counts at the rate of the present call.
    still.clock.advance_ms(3000);
    con.expect(&[("RL.BUCKET k 2/1s 7 0", [1, 7, 6, 0, 500])]);
    // But the key's end was set by the last charge's rate, and what has ended does not come back.
    still.clock.advance_ms(4000);
    con.expect(&[("RL.BUCKET k 1/1h 7 0", [1, 7, 7, 0, 0])]);
}

#[test]
fn cost_0_asks_without_charging() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[("RL.BUCKET k 10 10 0", [1, 10, 10, 0, 0])]);
    assert_eq!(con.number("EXISTS k"), 0);
    con.expect(&[
        ("RL.BUCKET k 10 10 10", [1, 10, 0, 0, 1000]),
        ("RL.BUCKET k 10 10 0", [1, 10, 0, 0, 1000]),
        ("RL.BUCKET k 10 10 0 LEAVE 4", [0, 10, 0, 400, 1000]),
        ("RL.BUCKET k 10 10 0 LEAVE 11", [0, 10, 0, -1, 1000]),
        ("RL.BUCKET k 10 10 5 FORCE", [1, 10, 0, 0, 1500]),
        ("RL.BUCKET k 10 10 0", [0, 10, 0, 500, 1500]),
        ("RL.BUCKET k 10 10 0 FORCE", [1, 10, 0, 0, 1500]),
        ("RL.BUCKET k 10 10 0 MAXWAIT 1s", [1, 10, 0, 500, 1500]),
    ]);
}

#[test]
fn limit_0_refuses_everything_but_force() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[
        ("RL.BUCKET k 10 0", [0, 0, 0, -1, 0]),
        ("RL.BUCKET k 10 0 0", [0, 0, 0, -1, 0]),
        ("RL.BUCKET k 10 0 5 UPTO", [0, 0, 0, -1, 0]),
        ("RL.BUCKET k 10 0 1 MAXWAIT 1h", [0, 0, 0, -1, 0]),
    ]);
    assert_eq!(con.number("EXISTS k"), 0);
    con.expect(&[
        ("RL.BUCKET k 10 0 0 FORCE", [1, 0, 0, 0, 0]),
        ("RL.BUCKET k 10 0 2 FORCE", [1, 0, 0, 0, 200]),
        ("RL.BUCKET k 10 0 0", [0, 0, 0, -1, 200]),
    ]);
}

#[test]
fn says_never_when_the_cost_does_not_fit() {
    let server = Server::start();
    let mut con = server.connection();
    let never = [0, 5, 5, -1, 0];
    con.expect(&[
        ("RL.BUCKET k 1 5 6", never),
        ("RL.BUCKET k 1 5 1 LEAVE 5", never),
        ("RL.BUCKET k 1 5 6 MAXWAIT 1h", never),
        ("RL.BUCKET k 1 5 9 UPTO LEAVE 5", never),
        (&format!("RL.BUCKET k 1 5 {MAX} LEAVE {MAX}"), never),
        ("RL.BUCKET k 1 5 9 UPTO LEAVE 4", [1, 5, 4, 0, 1000]),
    ]);
}

#[test]
fn force_leaves_a_debt_that_refills() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[
        ("RL.BUCKET k 100/1m 1000 1500 FORCE", [1, 1000, 0, 0, 900_000]),
        ("RL.BUCKET k 100/1m 1000", [0, 1000, 0, 300_600, 900_000]),
    ]);
    assert_eq!(still.keeps_promise(&mut con, "RL.BUCKET k 100/1m 1000"), 300_600);
}

#[test]
fn upto_takes_what_is_there() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[
        ("RL.BUCKET k 100 1000 400 UPTO", [400, 1000, 600, 0, 4000]),
        ("RL.BUCKET k 100 1000 900 UPTO LEAVE 500", [100, 1000, 500, 0, 5000]),
        ("RL.BUCKET k 100 1000 900 UPTO LEAVE 500", [0, 1000, 500, 10, 5000]),
        ("RL.BUCKET k 100 1000 900 UPTO", [500, 1000, 0, 0, 10_000]),
        ("RL.BUCKET k 100 1000 1 UPTO", [0, 1000, 0, 10, 10_000]),
    ]);
    still.clock.advance_us(25_900);
    con.expect(&[("RL.BUCKET k 100 1000 900 UPTO", [2, 1000, 0, 0, 9995])]);
    assert!(con.error("RL.BUCKET k 1 5 0 UPTO").starts_with("ERR UPTO needs a cost"));
}

#[test]
fn maxwait_hands_out_ordered_slots() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    for slot in 0..5 {
        let answer = [1, 1, 0, 100 * slot, 100 * (slot + 1)];
        con.expect(&[("RL.BUCKET k 10 1 1 MAXWAIT 400ms", answer)]);
    }
    con.expect(&[
        ("RL.BUCKET k 10 1 1 MAXWAIT 400ms", [0, 1, 0, 100, 500]),
        // Others wait behind those booked.
        ("RL.BUCKET k 10 1", [0, 1, 0, 500, 500]),
        ("RL.BUCKET k 10 1 2 MAXWAIT 1h", [0, 1, 0, -1, 500]),
    ]);
    still.clock.advance_ms(100);
    con.expect(&[("RL.BUCKET k 10 1 1 MAXWAIT 400ms", [1, 1, 0, 400, 500])]);
}

#[test]
fn names_are_buckets_of_their_own() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let long = "n".repeat(128);
    con.expect(&[
        ("RL.BUCKET k 1 5 2", [1, 5, 3, 0, 2000]),
        ("RL.BUCKET k 1 5 1 AS a", [1, 5, 4, 0, 1000]),
        ("RL.BUCKET k 1 5 as A", [1, 5, 4, 0, 1000]),
        (&format!("RL.BUCKET k 1 5 3 AS {long}"), [1, 5, 2, 0, 3000]),
        ("RL.BUCKET k 1 5 0", [1, 5, 3, 0, 2000]),
        ("RL.BUCKET k 1 5 0 AS a", [1, 5, 4, 0, 1000]),
        (&format!("RL.BUCKET k 1 5 0 AS {long}"), [1, 5, 2, 0, 3000]),
    ]);
    assert!(con.error(&format!("RL.BUCKET k 1 5 AS {long}n")).starts_with("ERR AS "));
    // Names and keys are bytes, and a name may look like a keyword.
    for name in [&b"\0"[..], b"\xff\xfe", b"AS", b"FORCE", b" "] {
        assert_eq!(five(&cmd!(con, "RL.BUCKET", b"", 1, 5, "AS", name))[2], 4);
        assert_eq!(five(&cmd!(con, "RL.BUCKET", b"", 1, 5, "AS", name))[2], 3);
    }
}

#[test]
fn keywords_have_any_case_and_order() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[
        ("rl.bucket k 1 5 uPtO aS x LeAvE 1", [1, 5, 4, 0, 1000]),
        ("Rl.Bucket k 1 5 leave 1 as x upto", [1, 5, 3, 0, 2000]),
    ]);
    assert!(con.error("RL.BUCKET k 1 5 1 maxwait 1M").starts_with("ERR MAXWAIT"));
}

#[test]
fn a_clock_that_steps_back_locks_nobody_out() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[("RL.BUCKET k 1 5 5", [1, 5, 0, 0, 5000])]);
    still.clock.step_us(-3_600_000_000);
    // Looking does not move it, but answers as if it were moved.
    con.expect(&[("RL.PEEK k BUCKET 1 5", [0, 5, 0, 1000, 5000])]);
    let before = still.server.digest("k");
    con.expect(&[("RL.PEEK k BUCKET 1 5", [0, 5, 0, 1000, 5000])]);
    assert_eq!(still.server.digest("k"), before);
    // A refusal moves and stores it.
    con.expect(&[("RL.BUCKET k 1 5", [0, 5, 0, 1000, 5000])]);
    assert_ne!(still.server.digest("k"), before);
    still.keeps_promise(&mut con, "RL.BUCKET k 1 5");
    let expire_ms = still.server.pexpiretime("k");
    assert!(expire_ms < i64::try_from(NOON_MS).unwrap() - 3_000_000, "the key moved too");
}

#[test]
fn an_overflow_is_an_error_that_charges_nothing() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let max: i64 = MAX.parse().unwrap();
    let all = format!("RL.BUCKET k 1/366d {MAX} {MAX}");
    // A longer time is answered as that number of milliseconds.
    con.expect(&[(&all, [1, max, 0, 0, max])]);
    let before = still.server.digest("k");
    let error = con.error("RL.BUCKET k 1/366d 5 1 FORCE");
    assert!(error.starts_with("ERR the charge would lift"), "{error}");
    assert!(con.error(&format!("{all} FORCE")).starts_with("ERR the charge would lift"));
    assert!(con.error("RL.TAKE k FORCE WINDOW 1m 5 BUCKET 1 1").starts_with("ERR the charge"));
    assert_eq!(still.server.digest("k"), before);
    assert_eq!(still.server.pexpiretime("k"), max, "an expiry is capped there");
    con.expect(&[("RL.BUCKET k 1/366d 5", [0, 5, 0, max, max])]);
}

#[test]
fn keys_expire_soon_after_their_end() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let noon = i64::try_from(NOON_MS).unwrap();
    for (line, end_ms) in [
        ("RL.BUCKET a 1/1h 5", noon + 3_600_000),
        ("RL.BUCKET b 1000 5", noon + 1),
        ("RL.WINDOW c 1m 5 FIXED", noon + 60_000),
        ("RL.QUOTA d day 5", noon + 43_200_000),
        ("RL.ACQUIRE e 5 10s", noon + 10_000),
    ] {
        con.ask(line);
        let key = line.split(' ').nth(1).unwrap();
        let expire_ms = still.server.pexpiretime(key);
        assert!((end_ms..=end_ms + 120_000).contains(&expire_ms), "{line}: {}", expire_ms - end_ms);
    }
}

#[test]
fn persist_is_healed_by_the_next_admission() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("RL.BUCKET k 1/1h 2");
    assert_eq!(con.number("PERSIST k"), 1);
    con.ask("RL.BUCKET k 1/1h 2 0");
    con.ask("RL.BUCKET k 1/1h 2 2");
    assert_eq!(still.server.pexpiretime("k"), -1, "neither cost 0 nor a refusal writes");
    con.expect(&[("RL.BUCKET k 1/1h 2", [1, 2, 0, 0, 7_200_000])]);
    let expire_ms = still.server.pexpiretime("k");
    assert!(expire_ms >= i64::try_from(NOON_MS).unwrap() + 7_200_000);
    // Without an expiry, what has ended is ignored all the same.
    con.ask("PERSIST k");
    still.clock.advance_ms(7_200_000);
    con.expect(&[("RL.BUCKET k 1/1h 2", [1, 2, 1, 0, 3_600_000])]);
    assert!(still.server.pexpiretime("k") > 0);
    // An expiry that a user made too early is corrected, too.
    con.ask("PEXPIRE k 5");
    con.ask("RL.BUCKET k 1/1h 2");
    assert!(con.number("PTTL k") >= 7_200_000);
}

#[test]
fn the_state_is_what_was_used_not_what_is_left() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    // A refused client that retries a thousand times is refilled all the same.
    con.ask("RL.BUCKET k 1/1h 3 3");
    for _ in 0..1000 {
        still.clock.advance_us(3_599_999);
        assert_eq!(con.five("RL.BUCKET k 1/1h 3")[0], 0);
    }
    still.clock.advance_us(1000);
    assert_eq!(con.five("RL.BUCKET k 1/1h 3")[0], 1);
}
