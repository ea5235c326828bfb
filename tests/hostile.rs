//! Bad input: every command, every argument. It gets a fixed error and changes nothing.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use redis::{Cmd, Connection, ConnectionLike as _, RedisResult, Value};
use support::*;

/// Stands for whatever a client sends: it must not turn up in an error or in the log.
const CANARY: &[u8] = b"canary7f3a";

/// A correct call of each form. A word behind `!` must be what it is: whatever else stands there is
/// an error. The other words may be any bytes.
const CALLS: &[&str] = &[
    "RL.BUCKET k !1/1h !5 !1 !AS name !LEAVE !1",
    "RL.BUCKET k !1/1h !5 !1 !MAXWAIT !1s",
    "RL.BUCKET k !1/1h !5 !1 !FORCE",
    "RL.BUCKET k !1/1h !5 !UPTO",
    "RL.WINDOW k !1m !5 !1 !SLIDING !AS name !LEAVE !1",
    "RL.WINDOW k !1m !5 !LOG !UPTO",
    "RL.WINDOW k !1m !5 !1 !FIXED !FORCE",
    "RL.QUOTA k !month !5 !1 !TZ !Europe/Berlin !ANCHOR !15 !AS name !LEAVE !1",
    "RL.QUOTA k !week !5 !1 !ANCHOR !sun",
    "RL.QUOTA k !hour !5 !1",
    "RL.ACQUIRE k !5 !1m !1 !ID id !NX !AS name",
    "RL.RENEW k id !1m",
    "RL.RESET k !WINDOW !1m !FIXED !AS name",
    "RL.RESET k !QUOTA !month",
    "RL.RESET k !BUCKET",
    "RL.RESET k !LEASE !AS name",
    "RL.TAKE k !COST !1 !DETAIL !BUCKET !1/1h !5 !AS name !COST !2 !LEAVE !1 !WINDOW !1m !5 !LOG",
    "RL.TAKE k !FORCE !QUOTA !day !5 !TZ !UTC !LEASE !5 !1m !ID id !AS name",
    "RL.PEEK k !COST !1 !DETAIL !QUOTA !month !5 !ANCHOR !31 !LEASE !5 !1m",
    "RL.REFUND k !COST !1 !AGE !1s !DETAIL !BUCKET !1/1h !5 !AS name !WINDOW !1m !5",
    "RL.MTAKE !COST !1 !DETAIL !KEY k !BUCKET !1/1h !5 !KEY l !WINDOW !1m !5 !LEAVE !1",
    "RL.MPEEK !COST !1 !DETAIL !KEY k !BUCKET !1/1h !5 !KEY l !LEASE !1 !1m !ID id",
    "RL.MREFUND !COST !1 !AGE !1s !KEY k !BUCKET !1/1h !5 !KEY l !QUOTA !day !5 !AS name",
    "CL.THROTTLE k 5 10 60 1",
    "RL.E k !x",
];

/// What is no value of any argument.
fn garbage() -> Vec<Vec<u8>> {
    let words: [&[u8]; 34] = [
        b"",
        b" ",
        b"x",
        CANARY,
        b"-1",
        b"+1",
        b"-0",
        b"1.5.1",
        b".5",
        b"5.",
        b"1,5",
        b"1e9",
        b"1E400",
        b"nan",
        b"NaN",
        b"inf",
        b"-inf",
        b"0x10",
        b" 1",
        b"1 ",
        b"1\n",
        b"1\r\n+OK\r\n",
        b"1\0",
        b"\0",
        b"\xff",
        b"1\xff",
        b"\xd9\xa3",
        b"9007199254740992/0s",
        b"18446744073709551616",
        b"-9223372036854775808",
        b"%s%n%s%n",
        b"1/0s",
        b"1mm",
        b"1M",
    ];
    let mut all: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
    all.push(b"9".repeat(10_000));
    all.push(CANARY.repeat(100_000));
    all
}

fn words(call: &str) -> Vec<(bool, Vec<u8>)> {
    let word = |word: &str| match word.strip_prefix('!') {
        Some(fixed) => (true, fixed.as_bytes().to_vec()),
        None => (false, word.as_bytes().to_vec()),
    };
    call.split(' ').map(word).collect()
}

fn send(con: &mut Connection, words: &[Vec<u8>]) -> RedisResult<Value> {
    let mut command = Cmd::new();
    words.iter().for_each(|word| {
        command.arg(word.as_slice());
    });
    con.req_command(&command).and_then(Value::extract_error)
}

fn shown(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| escape(&word[..word.len().min(40)])).collect::<Vec<_>>().join(" ")
}

fn fill(con: &mut Connection) {
    con.ask("FLUSHALL");
    con.ask(
        "RL.TAKE k COST 5 BUCKET 1/1h 5 BUCKET 1/1h 5 AS name WINDOW 1m 5 WINDOW 1m 5 FIXED \
         WINDOW 1m 5 LOG QUOTA month 5 LEASE 5 1h ID held COST 2",
    );
}

/// The call is an error that says nothing of what was sent and changes nothing.
#[track_caller]
fn refuses(con: &mut Connection, words: &[Vec<u8>]) {
    let before = digest(con);
    match send(con, words) {
        Ok(reply) => panic!("{}: {reply:?}", shown(words)),
        Err(e) => {
            let error = error_text(&e);
            assert!(error.starts_with("ERR "), "{}: {error}", shown(words));
            assert!(error.len() < 300 && error.is_ascii(), "{}: {error}", shown(words));
            assert!(!error.contains("canary"), "{}: {error}", shown(words));
        }
    }
    assert_eq!(digest(con), before, "{}", shown(words));
    assert_eq!(cmd!(con, "PING"), Value::SimpleString("PONG".into()));
}

#[track_caller]
fn digest(con: &mut Connection) -> String {
    plain(&cmd!(con, "DEBUG", "DIGEST"))
}

#[track_caller]
fn log_is_clean(server: &Server) {
    let log = server.log();
    for bad in ["canary", "panic", "internal error", "BUG REPORT"] {
        assert!(!log.contains(bad), "{bad} in the log:\n{log}");
    }
}

#[test]
fn the_calls_are_correct() {
    let server = Server::start();
    let mut con = server.connection();
    for call in CALLS.iter().filter(|call| !call.starts_with("RL.E ")) {
        let words: Vec<_> = words(call).into_iter().map(|(_, word)| word).collect();
        assert!(send(&mut con, &words).is_ok(), "{}", shown(&words));
    }
}

#[test]
fn garbage_in_every_argument() {
    let server = Server::start();
    let mut con = server.connection();
    let garbage = garbage();
    for call in CALLS {
        fill(&mut con);
        let call = words(call);
        for at in 1..call.len() {
            for bad in &garbage {
                let mut sent: Vec<_> = call.iter().map(|(_, word)| word.clone()).collect();
                sent[at].clone_from(bad);
                if call[at].0 {
                    refuses(&mut con, &sent);
                } else if send(&mut con, &sent).is_ok() {
                    // Keys, names and ids are any bytes; what this changed is undone.
                    fill(&mut con);
                }
            }
        }
    }
    log_is_clean(&server);
}

#[test]
fn names_and_ids_have_1_to_128_bytes() {
    let server = Server::start();
    let mut con = server.connection();
    fill(&mut con);
    for call in CALLS {
        let call = words(call);
        for at in 2..call.len() {
            if call[at].0 || [&b"k"[..], b"l"].contains(&call[at].1.as_slice()) {
                continue;
            }
            for bad in [vec![], vec![b'n'; 129], CANARY.repeat(1000)] {
                let mut sent: Vec<_> = call.iter().map(|(_, word)| word.clone()).collect();
                sent[at] = bad;
                refuses(&mut con, &sent);
            }
        }
    }
    for id in ["", &"i".repeat(129)] {
        refuses(&mut con, &["RL.RELEASE", "k", "held", id].map(|word| word.as_bytes().to_vec()));
    }
    log_is_clean(&server);
}

#[test]
fn too_few_and_too_many_arguments() {
    let server = Server::start();
    let mut con = server.connection();
    for call in CALLS {
        let full: Vec<_> = words(call).into_iter().map(|(_, word)| word).collect();
        for len in 1..full.len() {
            fill(&mut con);
            let before = digest(&mut con);
            // Shorter calls may be correct, too.
            if let Err(e) = send(&mut con, &full[..len]) {
                let error = error_text(&e);
                assert!(error.starts_with("ERR "), "{}: {error}", shown(&full[..len]));
                assert_eq!(digest(&mut con), before, "{}", shown(&full[..len]));
            }
        }
        fill(&mut con);
        for more in [&b"x"[..], b"", b"1", b"\0", b"\xff", CANARY] {
            if !(more == b"1" && full.last().unwrap() == b"UPTO") {
                let sent = [full.clone(), vec![more.to_vec()]].concat();
                refuses(&mut con, &sent);
            }
        }
        for name in [full[0].clone(), full[0].to_ascii_lowercase()] {
            refuses(&mut con, &[name]);
        }
    }
    log_is_clean(&server);
}

#[test]
fn repeated_and_contradictory_options() {
    let server = Server::start();
    let mut con = server.connection();
    fill(&mut con);
    for (head, options) in [
        ("RL.BUCKET k 1/1h 5 1", "AS x|FORCE|UPTO|MAXWAIT 1s|LEAVE 1"),
        ("RL.WINDOW k 1m 5 1", "AS x|FORCE|UPTO|LEAVE 1|FIXED|LOG|SLIDING"),
        ("RL.QUOTA k month 5 1", "AS x|FORCE|UPTO|LEAVE 1|TZ UTC|ANCHOR 3"),
        ("RL.ACQUIRE k 5 1m 1", "AS x|ID y|NX"),
        ("RL.RESET k WINDOW 1m", "AS x|FIXED"),
        ("RL.TAKE k BUCKET 1/1h 5", "AS x|COST 1|LEAVE 1"),
        ("RL.PEEK k LEASE 5 1m", "AS x|COST 1|LEAVE 1|ID x"),
        ("RL.MTAKE KEY k WINDOW 1m 5", "AS x|COST 1|LEAVE 1|LOG"),
    ] {
        for option in options.split('|') {
            con.try_ask(&format!("{head} {option} {option}")).unwrap_err();
            let sent = format!("{head} {option} {}", option.to_lowercase());
            refuses(&mut con, &sent.split(' ').map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>());
        }
    }
    for line in [
        "RL.BUCKET k 1/1h 5 1 FORCE UPTO",
        "RL.BUCKET k 1/1h 5 1 UPTO MAXWAIT 1s",
        "RL.BUCKET k 1/1h 5 1 MAXWAIT 1s FORCE",
        "RL.BUCKET k 1/1h 5 1 FORCE LEAVE 1",
        "RL.BUCKET k 1/1h 5 1 LEAVE 0 FORCE",
        "RL.BUCKET k 1/1h 5 0 UPTO",
        "RL.BUCKET k 1/1h 5 1 MAXWAIT 3600001ms",
        "RL.BUCKET k 1/1h 5 1 MAXWAIT 0ms",
        "RL.BUCKET k 1/1h 5 AS x 1",
        "RL.BUCKET k 1/1h 5 1 FIXED",
        "RL.BUCKET k 1/1h 5 1 TZ UTC",
        "RL.BUCKET k 1/1h 5 1 ID x",
        "RL.BUCKET k 1/1h 5 1 COST 1",
        "RL.BUCKET k 0 5",
        "RL.BUCKET k 0/1s 5",
        "RL.BUCKET k 1/367d 5",
        "RL.BUCKET k 1000000001 5",
        "RL.BUCKET k 1000001/1ms 5",
        "RL.BUCKET k 0.0000001 5",
        "RL.BUCKET k 1/1h 9007199254740992",
        "RL.BUCKET k 1/1h 5 9007199254740992",
        "RL.WINDOW k 15ms 5",
        "RL.WINDOW k 367d 5",
        "RL.WINDOW k 60 5",
        "RL.WINDOW k 1m 5 1 MAXWAIT 1s",
        "RL.WINDOW k 1m 5 1 FIXED LOG",
        "RL.WINDOW k 1m 65537 1 LOG",
        "RL.ACQUIRE k 5 0ms",
        "RL.ACQUIRE k 5 367d",
        "RL.ACQUIRE k 5 1m 1 NX",
        "RL.ACQUIRE k 5 1m 1 LEAVE 1",
        "RL.ACQUIRE k 5 1m 1 FORCE",
        "RL.RENEW k held 0ms",
        "RL.TAKE k COST 1 COST 1 BUCKET 1 5",
        "RL.TAKE k DETAIL DETAIL BUCKET 1 5",
        "RL.TAKE k FORCE FORCE BUCKET 1 5",
        "RL.TAKE k FORCE BUCKET 1 5 LEAVE 1",
        "RL.TAKE k BUCKET 1 5 UPTO",
        "RL.TAKE k BUCKET 1 5 FORCE",
        "RL.TAKE k BUCKET 1 5 1",
        "RL.PEEK k FORCE BUCKET 1 5",
        "RL.REFUND k AGE 1s AGE 1s BUCKET 1 5",
        "RL.REFUND k AGE 367d BUCKET 1 5",
        "RL.REFUND k FORCE BUCKET 1 5",
        "RL.MTAKE KEY k BUCKET 1 5 DETAIL",
        "RL.MTAKE KEY k BUCKET 1 5 KEY k WINDOW 1m 5",
    ] {
        refuses(&mut con, &line.split(' ').map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>());
    }
    log_is_clean(&server);
}

#[test]
fn keys_of_other_types_are_left_alone() {
    let server = Server::start();
    let mut con = server.connection();
    for make in [
        "SET k 1",
        "SET k canary7f3a",
        "RPUSH k a",
        "HSET k a 1",
        "SADD k a",
        "SADD k 1",
        "ZADD k 1 a",
        "XADD k * a 1",
        "PFADD k a",
    ] {
        con.ask("FLUSHALL");
        con.ask(make);
        con.ask("PEXPIRE k 100000000");
        let before = (digest(&mut con), server.pexpiretime("k"));
        let more = ["RL.INFO k", "RL.RELEASE k id", "RL.BUCKET k 1 0", "RL.BUCKET k 1 5 0"];
        for call in CALLS.iter().chain(&more).filter(|call| !call.starts_with("RL.E ")) {
            let sent: Vec<_> = words(call).into_iter().map(|(_, word)| word).collect();
            let error = error_text(&send(&mut con, &sent).unwrap_err());
            assert_eq!(
                error, "WRONGTYPE Operation against a key holding the wrong kind of value",
                "{call} on {make}"
            );
            assert_eq!((digest(&mut con), server.pexpiretime("k")), before, "{call} on {make}");
        }
    }
    // And the other way round.
    con.ask("DEL k");
    con.ask("RL.BUCKET k 1/1h 5");
    for line in ["GET k", "INCR k", "RPUSH k a", "HGETALL k", "XLEN k", "APPEND k x", "SADD k a"] {
        assert!(con.error(line).starts_with("WRONGTYPE"), "{line}");
    }
    assert_eq!(plain(&con.ask("TYPE k")), "rl-limits");
    log_is_clean(&server);
}

#[test]
fn keys_are_any_bytes() {
    let server = Server::start();
    let mut con = server.connection();
    for key in [&b""[..], b"\0", b"a\0b", b"\xff\xfe", b"\r\n", b"KEY", &CANARY.repeat(10_000)] {
        for left in [4, 3] {
            assert_eq!(five(&cmd!(con, "RL.BUCKET", key, "1/1h", 5))[2], left);
        }
        assert_eq!(five(&cmd!(con, "RL.MTAKE", "KEY", key, "BUCKET", "1/1h", 5))[2], 2);
        assert_eq!(five(&cmd!(con, "RL.PEEK", key, "BUCKET", "1/1h", 5))[2], 2);
        assert_eq!(int(&cmd!(con, "RL.RESET", key, "BUCKET")), 1);
        assert_eq!(int(&cmd!(con, "EXISTS", key)), 0);
    }
    log_is_clean(&server);
}

#[test]
fn random_words_do_no_harm() {
    let server = Server::start();
    let mut con = server.connection();
    let mut vocabulary: Vec<Vec<u8>> =
        CALLS.iter().flat_map(|call| words(call)).map(|(_, word)| word).collect();
    vocabulary.extend(garbage().into_iter().filter(|word| word.len() < 1000));
    vocabulary.extend(["0", "3", "9007199254740991", "366d", "1ms"].map(|w| w.as_bytes().to_vec()));
    let names: Vec<_> = CALLS.iter().map(|call| words(call)[0].1.clone()).collect();
    let mut state = 42_u64;
    let mut below = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    for _ in 0..20_000 {
        // A correct call with some words changed, dropped or added.
        let call = CALLS[below(CALLS.len())];
        let mut sent: Vec<_> = words(call).into_iter().map(|(_, word)| word).collect();
        for _ in 0..=below(4) {
            let at = below(sent.len());
            match below(4) {
                0 if sent.len() > 1 => drop(sent.remove(at)),
                1 => sent.insert(at, vocabulary[below(vocabulary.len())].clone()),
                _ => sent[at] = vocabulary[below(vocabulary.len())].clone(),
            }
        }
        sent[0].clone_from(&names[below(names.len())]);
        if let Err(e) = send(&mut con, &sent) {
            let error = error_text(&e);
            assert!(error.starts_with("ERR "), "{}: {error}", shown(&sent));
            assert!(!error.contains("internal"), "{}: {error}", shown(&sent));
        }
    }
    // No key of ours was left without an expiry.
    let Value::Array(keys) = con.ask("KEYS *") else { panic!() };
    for key in &keys {
        let Value::BulkString(name) = key else { panic!("{key:?}") };
        let expires = int(&cmd!(con, "PTTL", name)) > 0;
        assert!(expires || plain(&cmd!(con, "TYPE", name)) != "rl-limits", "{}", escape(name));
    }
    log_is_clean(&server);
}
