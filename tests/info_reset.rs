//! RL.INFO and RL.RESET.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use redis::{Connection, Value};
use support::*;

/// What RL.INFO shows, one line a limit: `kind=bucket name=(nil) used=5 …`.
#[track_caller]
fn info(con: &mut Connection, key: &str) -> Vec<String> {
    let reply = con.ask(&format!("RL.INFO {key}"));
    let line = |limit: &Value| {
        let words: Vec<String> = match limit {
            Value::Array(items) => items.iter().map(plain).collect(),
            Value::Map(pairs) => pairs.iter().flat_map(|(k, v)| [plain(k), plain(v)]).collect(),
            other => panic!("not a map: {other:?}"),
        };
        words.chunks(2).map(|pair| pair.join("=")).collect::<Vec<_>>().join(" ")
    };
    match &reply {
        Value::Nil => Vec::new(),
        Value::Array(limits) => limits.iter().map(line).collect(),
        other => panic!("not an array: {other:?}"),
    }
}

/// Charges one limit of every kind and mode.
const EVERY_KIND: &str = "RL.TAKE k COST 5 BUCKET 50 200 QUOTA month 1000 QUOTA day 9 AS d \
     TZ Asia/Tokyo WINDOW 1m 9 WINDOW 1m 9 FIXED WINDOW 1m 9 LOG LEASE 10 30s ID job-1 COST 2";

#[test]
fn shows_every_kind_with_its_fields_in_order() {
    needs_clock!();
    let still = Still::at_us(NOON_MS * 1000 + 5_000_001);
    let mut con = still.server.connection();
    con.ask(EVERY_KIND);
    let noon = NOON_MS;
    let all = [
        format!("kind=bucket name=(nil) used=5 since_ms={} until_ms={}", noon + 5000, noon + 5101),
        "kind=quota period=month name=(nil) used=5 since_ms=1772323200000 until_ms=1775001600000"
            .to_owned(),
        format!(
            "kind=quota period=day name=d used=5 since_ms={} until_ms={}",
            noon + 10_800_000 - 86_400_000,
            noon + 10_800_000
        ),
        format!(
            "kind=window mode=sliding length_ms=60000 name=(nil) used=5 since_ms={} until_ms={}",
            noon + 3_750,
            noon + 67_500
        ),
        format!(
            "kind=window mode=fixed length_ms=60000 name=(nil) used=5 since_ms={} until_ms={}",
            noon + 5_000,
            noon + 65_001
        ),
        format!(
            "kind=window mode=log length_ms=60000 name=(nil) used=5 since_ms={} until_ms={}",
            noon + 5_001,
            noon + 65_001
        ),
        format!("kind=lease name=(nil) holders=1 slots=2 next_end_ms={}", noon + 35_001),
    ];
    let shown = info(&mut con, "k");
    assert_eq!(shown.len(), all.len());
    for line in &all {
        assert!(shown.contains(line), "{line}\nnot in {shown:#?}");
    }
    assert_eq!(info(&mut still.server.connection3(), "k"), shown, "the same under RESP3");
}

#[test]
fn leaves_out_what_has_ended() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    assert_eq!(con.ask("RL.INFO k"), Value::Nil);
    con.ask("RL.TAKE k BUCKET 1/1s 9 WINDOW 1m 9 FIXED LEASE 9 2s ID a QUOTA hour 9");
    let before = still.server.digest("k");
    let mut counts = Vec::new();
    for advance_ms in [0, 1000, 1000, 58_000, 3_540_000] {
        still.clock.advance_ms(advance_ms);
        counts.push(info(&mut con, "k").len());
        if *counts.last().unwrap() > 0 {
            assert_eq!(still.server.digest("k"), before, "looking changes nothing");
        }
    }
    assert_eq!(counts, [4, 3, 2, 1, 0]);
    assert_eq!(con.ask("RL.INFO k"), Value::Nil);
}

#[test]
fn answers_as_if_the_clock_rule_were_done() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("RL.TAKE k COST 2 BUCKET 1 9 WINDOW 1m 9 FIXED LEASE 9 5s ID a");
    let before = still.server.digest("k");
    still.clock.step_us(-3_600_000_000);
    let now = still.clock.now_ms();
    assert_eq!(
        info(&mut con, "k"),
        [
            format!("kind=bucket name=(nil) used=2 since_ms={now} until_ms={}", now + 2000),
            format!(
                "kind=window mode=fixed length_ms=60000 name=(nil) used=2 since_ms={now} until_ms={}",
                now + 60_000
            ),
            format!("kind=lease name=(nil) holders=1 slots=1 next_end_ms={}", now + 5000),
        ]
    );
    assert_eq!(still.server.digest("k"), before);
}

#[test]
fn shows_names_as_bytes_and_used_rounded_up() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    cmd!(con, "RL.BUCKET", "k", "1/1m", 9, 4, "AS", b"\xff\0n");
    still.clock.advance_ms(1);
    cmd!(con, "RL.BUCKET", "k", "1/1m", 9, 2, "AS", b"\xff\0n");
    let Value::Array(limits) = cmd!(con, "RL.INFO", "k") else { panic!() };
    assert_eq!(field(&limits[0], "name"), Some(Value::BulkString(b"\xff\0n".to_vec())));
    assert_eq!(field(&limits[0], "used"), Some(Value::Int(6)));
}

#[test]
fn reset_forgets_one_limit() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask(EVERY_KIND);
    con.ask("RL.BUCKET k 1 9 AS x");
    let mut left = 8;
    for identity in [
        "BUCKET",
        "BUCKET AS x",
        "WINDOW 60s",
        "window 1m fixed",
        "WINDOW 60000ms LOG",
        "QUOTA month",
        "quota DAY as d",
        "LEASE",
    ] {
        let unnamed = identity.split(" AS ").next().and_then(|all| all.split(" as ").next());
        assert_eq!(con.number(&format!("RL.RESET k {} AS other", unnamed.unwrap())), 0);
        assert_eq!(info(&mut con, "k").len(), left);
        assert_eq!(con.number(&format!("RL.RESET k {identity}")), 1, "{identity}");
        left -= 1;
        assert_eq!(info(&mut con, "k").len(), left);
        assert_eq!(con.number(&format!("RL.RESET k {identity}")), 0, "{identity}");
    }
    assert_eq!(con.number("EXISTS k"), 0, "nothing is left, so the key is gone");
    assert_eq!(con.number("RL.RESET k LEASE"), 0);
}

#[test]
fn reset_forgives_debt_and_ends_leases() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("RL.TAKE k COST 99 FORCE BUCKET 1/1h 5 LEASE 2 1h ID a");
    assert_eq!(con.number("RL.RESET k BUCKET"), 1);
    assert_eq!(con.five("RL.BUCKET k 1/1h 5"), [1, 5, 4, 0, 3_600_000]);
    assert_eq!(con.number("RL.RESET k LEASE"), 1);
    assert_eq!(con.number("RL.RENEW k a 1h"), 0);
    // The key's expiry follows what is left.
    con.ask("RL.QUOTA k year 5");
    assert!(con.number("PTTL k") > 200 * 86_400_000);
    assert_eq!(con.number("RL.RESET k QUOTA year"), 1);
    assert!((3_600_000..=3_720_000).contains(&con.number("PTTL k")));
    // An ended limit is nothing to forget.
    con.ask("RL.WINDOW k 1s 9 FIXED");
    still.clock.advance_ms(1000);
    assert_eq!(con.number("RL.RESET k WINDOW 1s FIXED"), 0);
}

#[test]
fn reset_is_strict() {
    let server = Server::start();
    let mut con = server.connection();
    con.ask("RL.BUCKET k 1/1h 5");
    let before = server.digest("k");
    for identity in [
        "TOKENS",
        "BUCKET 5",
        "BUCKET 1 5",
        "BUCKET AS",
        "BUCKET AS x AS y",
        "BUCKET AS x y",
        "BUCKET FIXED",
        "WINDOW",
        "WINDOW 60",
        "WINDOW 1m FIXED LOG",
        "WINDOW 1m 100",
        "QUOTA",
        "QUOTA month 100",
        "QUOTA month TZ UTC",
        "QUOTA fortnight",
        "LEASE 5",
        "LEASE ID a",
    ] {
        let error = con.error(&format!("RL.RESET k {identity}"));
        assert!(error.starts_with("ERR "), "{identity}: {error}");
    }
    assert_eq!(server.digest("k"), before);
}
