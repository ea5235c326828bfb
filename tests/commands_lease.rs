//! RL.ACQUIRE, RL.RELEASE and RL.RENEW, on a server whose clock the test turns.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use redis::Value;
use support::*;

/// The five integers and the lease id, `None` for null.
#[track_caller]
fn acquire(con: &mut redis::Connection, line: &str) -> ([i64; 5], Option<String>) {
    let reply = con.ask(line);
    let Value::Array(items) = &reply else { panic!("{line}: {reply:?}") };
    assert_eq!(items.len(), 6, "{line}: {reply:?}");
    let id = match &items[5] {
        Value::Nil => None,
        id @ Value::BulkString(_) => Some(plain(id)),
        other => panic!("{line}: {other:?} is no id"),
    };
    (five(&reply), id)
}

#[test]
fn holds_at_most_the_limit() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let mut expect = |line: &str, answer: [i64; 5], id: Option<&str>| {
        assert_eq!(acquire(&mut con, line), (answer, id.map(str::to_owned)), "{line}");
    };
    expect("RL.ACQUIRE k 2 30s ID job-1", [1, 2, 1, 0, 30_000], Some("job-1"));
    expect("RL.ACQUIRE k 2 1m ID job-2", [1, 2, 0, 0, 60_000], Some("job-2"));
    expect("RL.ACQUIRE k 2 30s ID job-3", [0, 2, 0, 30_000, 60_000], None);
    // A held id takes nothing and ends at now + ttl.
    expect("RL.ACQUIRE k 2 40s ID job-1", [1, 2, 0, 0, 60_000], Some("job-1"));
    expect("RL.ACQUIRE k 2 30s ID job-3", [0, 2, 0, 40_000, 60_000], None);
    expect("RL.ACQUIRE k 2 30s 2 ID job-3", [0, 2, 0, 60_000, 60_000], None);
    expect("RL.ACQUIRE k 2 30s 3 ID job-3", [0, 2, 0, -1, 60_000], None);
    // Also above a lowered limit, which evicts nobody; but not at limit 0.
    expect("RL.ACQUIRE k 1 40s ID job-1", [1, 1, 0, 0, 60_000], Some("job-1"));
    expect("RL.ACQUIRE k 1 40s ID job-3", [0, 1, 0, 60_000, 60_000], None);
    expect("RL.ACQUIRE k 0 40s ID job-1", [0, 0, 0, -1, 60_000], None);
    expect("RL.ACQUIRE k 0 40s", [0, 0, 0, -1, 60_000], None);
    // Nothing to take.
    expect("RL.ACQUIRE k 2 1m 0", [1, 2, 0, 0, 60_000], None);
    expect("RL.ACQUIRE k 1 1m 0", [0, 1, 0, 40_000, 60_000], None);
    expect("RL.ACQUIRE k 3 1m 0 ID job-9", [1, 3, 1, 0, 60_000], None);
    expect("RL.ACQUIRE other 2 1m 0", [1, 2, 2, 0, 0], None);
    assert_eq!(con.number("EXISTS other"), 0);
}

#[test]
fn a_dead_holder_frees_its_slots_to_the_millisecond() {
    needs_clock!();
    let still = Still::at_us(NOON_MS * 1000 + 617);
    let mut con = still.server.connection();
    for (prepare, refused, wait_ms) in [
        ("1 1ms", "1 1s", 1),
        ("1 30s", "1 1s", 30_000),
        ("1 366d", "1 1s", 31_622_400_000),
        ("8 90s 8", "5 1s 2", 90_000),
        ("8 90s 8", "12 1s 12", 90_000),
        ("2 90s 2", "4 1s 3 ID x", 90_000),
        ("2 90s ID x", "2 1s ID x NX", 90_000),
        ("2 90s 2 ID x", "1 1s 1 ID x NX", 90_000),
    ] {
        con.ask("DEL k");
        assert_eq!(con.five(&format!("RL.ACQUIRE k {prepare}"))[0], 1, "{prepare}");
        let wait = still.keeps_promise(&mut con, &format!("RL.ACQUIRE k {refused}"));
        assert_eq!(wait, wait_ms, "{prepare}, then {refused}");
    }
    // Several must end before there is room.
    con.ask("DEL k");
    for (ttl_s, slots) in [(30, 2), (10, 1), (20, 3)] {
        con.ask(&format!("RL.ACQUIRE k 6 {ttl_s}s {slots}"));
    }
    assert_eq!(still.keeps_promise(&mut con, "RL.ACQUIRE k 6 1s 1"), 10_000);
    con.ask("RL.RESET k LEASE");
    for (ttl_s, slots) in [(30, 2), (10, 1), (20, 3)] {
        con.ask(&format!("RL.ACQUIRE k 6 {ttl_s}s {slots}"));
    }
    assert_eq!(still.keeps_promise(&mut con, "RL.ACQUIRE k 6 1s 4"), 20_000);
    con.ask("RL.RESET k LEASE");
    for (ttl_s, slots) in [(30, 2), (10, 1), (20, 3)] {
        con.ask(&format!("RL.ACQUIRE k 6 {ttl_s}s {slots}"));
    }
    assert_eq!(still.keeps_promise(&mut con, "RL.ACQUIRE k 6 1s 5"), 30_000);
}

#[test]
fn the_server_makes_ids_of_128_random_bits() {
    let server = Server::start();
    let mut con = server.connection();
    let mut ids = std::collections::HashSet::new();
    for _ in 0..200 {
        let (answer, id) = acquire(&mut con, "RL.ACQUIRE k 200 1h");
        let id = id.unwrap();
        assert_eq!(answer[0], 1);
        assert_eq!(id.len(), 32);
        assert!(id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{id}");
        assert!(ids.insert(id));
    }
    assert_eq!(acquire(&mut con, "RL.ACQUIRE k 200 1h").1, None);
    for id in &ids {
        assert_eq!(con.number(&format!("RL.RELEASE k {id}")), 1);
    }
    assert_eq!(con.number("EXISTS k"), 0);
}

#[test]
fn a_held_id_is_told_apart() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("RL.ACQUIRE k 9 1m 2 ID a");
    let before = still.server.digest("k");
    for line in ["RL.ACQUIRE k 9 1m ID a", "RL.ACQUIRE k 9 1m 3 ID a", "RL.TAKE k LEASE 9 1m ID a"]
    {
        let error = con.error(line);
        assert!(error.starts_with("ERR the id is held with another number"), "{line}: {error}");
    }
    assert_eq!(acquire(&mut con, "RL.ACQUIRE k 9 1m 2 ID a NX").0, [0, 9, 7, 60_000, 60_000]);
    assert_eq!(still.server.digest("k"), before);
    assert_eq!(acquire(&mut con, "RL.ACQUIRE k 9 2m 2 nx id b").0, [1, 9, 5, 0, 120_000]);
    assert!(con.error("RL.ACQUIRE k 9 1m NX").starts_with("ERR NX "));
    // Ids are bytes.
    for id in [&b"\0"[..], b"\xff\xfe", &[b'i'; 128]] {
        cmd!(con, "RL.ACQUIRE", "bytes", 9, "1m", "ID", id);
        assert_eq!(int(&cmd!(con, "RL.RENEW", "bytes", id, "2m")), 1);
        assert_eq!(int(&cmd!(con, "RL.RELEASE", "bytes", id)), 1);
    }
}

#[test]
fn release_ends_what_is_held_under_every_name() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("RL.ACQUIRE k 9 1m ID a");
    con.ask("RL.ACQUIRE k 9 1m 4 ID a AS x");
    con.ask("RL.ACQUIRE k 9 1m ID b AS x");
    con.ask("RL.ACQUIRE k 9 1ms ID c");
    still.clock.advance_ms(1);
    let before = still.server.digest("k");
    assert_eq!(con.number("RL.RELEASE k c stranger"), 0);
    assert_eq!(con.number("RL.RELEASE missing a"), 0);
    assert_eq!(con.number("RL.RENEW k c 1m"), 0);
    assert_eq!(con.number("RL.RENEW missing a 1m"), 0);
    assert_eq!(still.server.digest("k"), before);
    assert_eq!(con.number("EXISTS missing"), 0);
    assert_eq!(con.number("RL.RELEASE k a a stranger"), 2, "the id holds under two names");
    assert_eq!(con.number("RL.RELEASE k a"), 0);
    assert_eq!(con.number("RL.RELEASE k b"), 1);
    assert_eq!(con.number("EXISTS k"), 0, "nothing is left");
}

#[test]
fn renew_moves_the_end_both_ways() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("RL.ACQUIRE k 1 10s ID a");
    still.clock.advance_ms(9_999);
    assert_eq!(con.number("RL.RENEW k a 10s"), 1);
    con.expect(&[("RL.ACQUIRE k 1 1s", [0, 1, 0, 10_000, 10_000])]);
    assert_eq!(con.number("RL.RENEW k a 1s"), 1);
    con.expect(&[("RL.ACQUIRE k 1 1s", [0, 1, 0, 1_000, 1_000])]);
    // The key's expiry follows.
    assert_eq!(con.number("RL.RENEW k a 1d"), 1);
    assert!(con.number("PTTL k") >= 86_400_000);
    assert_eq!(con.number("RL.RENEW k a 1s"), 1);
    let ttl_ms = con.number("PTTL k");
    assert!((1_000..=121_000).contains(&ttl_ms), "{ttl_ms}");
    still.clock.advance_ms(1_000);
    assert_eq!(con.number("RL.RENEW k a 10s"), 0, "what has ended is not brought back");
    con.expect(&[("RL.ACQUIRE k 1 1s", [1, 1, 0, 0, 1_000])]);
}

#[test]
fn leases_move_back_with_the_clock() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("RL.ACQUIRE k 2 10s ID a");
    still.clock.advance_ms(1_000);
    con.ask("RL.ACQUIRE k 2 10s ID b");
    still.clock.step_us(-86_400_000_000);
    con.expect(&[
        ("RL.PEEK k LEASE 2 1s", [0, 2, 0, 9_000, 10_000]),
        ("RL.ACQUIRE k 2 1s ID c", [0, 2, 0, 9_000, 10_000]),
    ]);
    assert_eq!(still.keeps_promise(&mut con, "RL.ACQUIRE k 2 10s ID c"), 9_000);
    // Also where another command meets it first.
    for line in ["RL.RELEASE k stranger", "RL.RENEW k stranger 1s"] {
        still.clock.step_us(-86_400_000_000);
        let before = still.server.digest("k");
        assert_eq!(con.number(line), 0);
        assert_ne!(still.server.digest("k"), before, "{line} moves what it meets");
    }
}

#[test]
fn a_limit_holds_65536_leases() {
    let server = Server::start();
    let mut con = server.connection();
    let mut pipe = redis::pipe();
    for id in 0..65_536 {
        pipe.cmd("RL.ACQUIRE").arg("k").arg(MAX).arg("1h").arg("ID").arg(id).ignore();
    }
    pipe.query::<()>(&mut con).unwrap();
    let info = con.ask("RL.INFO k");
    let Value::Array(limits) = &info else { panic!("{info:?}") };
    assert_eq!(field(&limits[0], "holders"), Some(Value::Int(65_536)));
    let refused = con.five(&format!("RL.ACQUIRE k {MAX} 1h ID more"));
    assert_eq!(refused[0], 0);
    assert!(refused[3] > 3_000_000, "until the first ends: {refused:?}");
    let before = server.digest("k");
    let error = con.error(&format!("RL.TAKE k FORCE LEASE {MAX} 1h ID more"));
    assert!(error.starts_with("ERR a limit holds at most 65536 leases"), "{error}");
    assert_eq!(server.digest("k"), before);
    assert_eq!(con.number("RL.RELEASE k 77"), 1);
    assert_eq!(con.five(&format!("RL.ACQUIRE k {MAX} 1h ID more"))[0], 1);
}
