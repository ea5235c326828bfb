//! When memory ends, and whether it comes back.
//!
//! `RL_MEMORY_KEYS` and `RL_LEAK_CALLS` make the counts larger.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
mod workload;
use support::*;
use workload::{Rng, Workload, say, try_call};

use redis::{Connection, ConnectionLike as _, Value};
use std::time::{Duration, Instant};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[track_caller]
fn used_memory(server: &Server) -> u64 {
    server.info("used_memory").unwrap().parse().unwrap()
}

/// The error of a call of words separated by blanks.
#[track_caller]
fn fails(con: &mut Connection, text: &str) -> String {
    let words: Vec<Vec<u8>> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    error_text(&try_call(con, &words).expect_err(text))
}

/// Sends many calls in pipelines; none may fail.
#[track_caller]
fn send_all(con: &mut Connection, calls: impl Iterator<Item = String>) {
    let mut calls = calls.peekable();
    while calls.peek().is_some() {
        let mut pipe = redis::Pipeline::new();
        let batch = calls.by_ref().take(1000);
        let count = batch
            .map(|call| {
                let mut words = call.split(' ');
                let mut command = redis::cmd(words.next().unwrap());
                for word in words {
                    command.arg(word);
                }
                pipe.add_command(command);
            })
            .count();
        let replies = con.req_packed_commands(&pipe.get_packed_pipeline(), 0, count).unwrap();
        for reply in replies {
            reply.extract_error().unwrap_or_else(|e| panic!("{}", error_text(&e)));
        }
    }
}

/// A server with some limits in use, above its memory limit.
fn full(policy: &str) -> Server {
    fill(Server::builder().config(format!("maxmemory-policy {policy}")))
}

#[track_caller]
fn fill(builder: Builder) -> Server {
    let server = builder.start();
    let mut con = server.connection();
    for key in ["k", "k2"] {
        say(&mut con, &format!("RL.TAKE {key} COST 5 BUCKET 1/1h 10 WINDOW 1h 10 QUOTA year 10"));
        say(&mut con, &format!("RL.TAKE {key} COST 5 WINDOW 1h 10 FIXED WINDOW 1h 10 LOG"));
        say(&mut con, &format!("RL.ACQUIRE {key} 5 1h 2 ID a"));
    }
    cmd!(con, "SET", "string", "x");
    cmd!(con, "CONFIG", "SET", "maxmemory", 1);
    assert!(err!(con, "SET", "other", "x").starts_with("OOM"));
    server
}

#[test]
fn without_memory_existing_limits_go_on_and_nothing_grows() {
    existing_limits_go_on_and_nothing_grows(&full("noeviction"));
}

/// The module asks the server in the name of INCRBY, which a cautious operator may have taken away.
#[test]
fn without_memory_and_without_incrby() {
    let config = ["maxmemory-policy noeviction", "rename-command INCRBY \"\""];
    let builder = config.into_iter().fold(Server::builder(), Builder::config);
    existing_limits_go_on_and_nothing_grows(&fill(builder));
}

#[track_caller]
fn existing_limits_go_on_and_nothing_grows(server: &Server) {
    let mut con = server.connection();
    let ok = [
        ("RL.BUCKET k 1/1h 10", 1),
        ("RL.WINDOW k 1h 10", 1),
        ("RL.WINDOW k 1h 10 FIXED", 1),
        ("RL.QUOTA k year 10", 1),
        ("RL.TAKE k BUCKET 1/1h 10 WINDOW 1h 10 QUOTA year 10", 1),
        ("RL.MTAKE KEY k BUCKET 1/1h 10 KEY k2 QUOTA year 10", 1),
        ("RL.BUCKET k 1/1h 10 2 FORCE", 1),
        ("RL.ACQUIRE k 5 2h 2 ID a", 1),
        // Refusals, also on missing keys.
        ("RL.BUCKET k 1/1h 10 9", 0),
        ("RL.WINDOW k 1h 10 9 LOG", 0),
        ("RL.ACQUIRE k 5 1h 4 ID b", 0),
        ("RL.BUCKET new 1/1h 0", 0),
        ("RL.WINDOW new 1h 1 2 LOG", 0),
        ("RL.ACQUIRE new 1 1h 2", 0),
        ("RL.TAKE new BUCKET 1 1 QUOTA day 0", 0),
        ("RL.PEEK new BUCKET 1 1", 1),
        ("RL.BUCKET new 1 1 0", 1),
        // Giving back needs no memory.
        ("RL.REFUND k COST 2 BUCKET 1/1h 10 QUOTA year 10", 1),
        ("RL.REFUND new BUCKET 1/1h 10", 1),
    ];
    for (call, allowed) in ok {
        assert_eq!(five(&say(&mut con, call))[0], allowed, "{call}");
    }
    let before = server.digest_all();
    // The log's newest entry is some milliseconds old, so one more would be a longer log.
    std::thread::sleep(Duration::from_millis(5));
    let grows = [
        "RL.BUCKET new 1/1h 10",
        "RL.WINDOW new 1h 10",
        "RL.QUOTA new day 10",
        "RL.ACQUIRE new 10 1h",
        "RL.WINDOW k 1h 10 LOG",
        "RL.ACQUIRE k 5 1h ID b",
        "RL.TAKE k BUCKET 1/1h 10 WINDOW 1h 10 LOG",
        "RL.TAKE k QUOTA year 10 LEASE 5 1h ID b",
        "RL.TAKE new BUCKET 1 1",
        "RL.MTAKE KEY k QUOTA year 10 KEY new QUOTA year 10",
    ];
    for call in grows {
        let error = fails(&mut con, call);
        assert!(error.starts_with("OOM"), "{call}: {error}");
    }
    assert_eq!(server.digest_all(), before, "an OOM charges nothing");
    assert_eq!(int(&say(&mut con, "RL.RENEW k a 3h")), 1);
    assert_eq!(int(&say(&mut con, "RL.RELEASE k a")), 1);
    assert_eq!(int(&say(&mut con, "RL.RESET k2 LEASE")), 1);
    assert_eq!(int(&say(&mut con, "DEL k")), 1);
    cmd!(con, "CONFIG", "SET", "maxmemory", 0);
    assert_eq!(five(&say(&mut con, "RL.BUCKET new 1/1h 10"))[0], 1);
}

/// In a transaction and in scripts the same holds, as far as the server lets one get there.
#[test]
fn without_memory_transactions_and_scripts_obey_too() {
    let server = full("noeviction");
    let mut con = server.connection();
    let (old, new) = ("RL.BUCKET k 1/1h 10", "RL.BUCKET new 1/1h 10");
    say(&mut con, "MULTI");
    if !is_valkey() && version() < (7, 2, 0) {
        // Redis 7.0 refuses to queue anything.
        assert!(fails(&mut con, old).starts_with("OOM"));
        assert!(fails(&mut con, "EXEC").starts_with("EXECABORT"));
    } else {
        say(&mut con, old);
        say(&mut con, new);
        let mut raw = server.raw();
        // The client at hand makes an error of a reply that holds one.
        say(&mut con, "DISCARD");
        for line in ["MULTI", old, new, "EXEC"] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let reply = escape(&raw.call(&words));
            if line == "EXEC" {
                assert!(reply.starts_with(r"*2\r\n*5\r\n:1\r\n"), "{reply}");
                assert!(reply.contains(r"-OOM "), "{reply}");
            }
        }
    }
    let script = "return redis.call('RL.BUCKET', KEYS[1], '1/1h', '10')";
    let both = "local one = redis.call('RL.BUCKET', KEYS[1], '1/1h', '10') \
                local two = redis.pcall('RL.BUCKET', KEYS[2], '1/1h', '10') \
                return {one[1], two['err'] or 'no error'}";
    for head in ["", "#!lua flags=allow-oom\n"] {
        assert_eq!(five(&cmd!(con, "EVAL", format!("{head}{script}"), 1, "k"))[0], 1);
        let error = err!(con, "EVAL", format!("{head}{script}"), 1, "new");
        assert!(error.starts_with("OOM"), "{head}{error}");
        say(&mut con, "RL.REFUND k COST 3 BUCKET 1/1h 10");
        let Value::Array(reply) = cmd!(con, "EVAL", format!("{head}{both}"), 2, "k", "new") else {
            panic!("no array")
        };
        assert_eq!(int(&reply[0]), 1);
        assert!(plain(&reply[1]).starts_with("OOM"), "{reply:?}");
    }
    let error = err!(con, "EVAL", format!("#!lua\n{script}"), 1, "k");
    assert!(error.starts_with("OOM"), "{error}");
    assert_eq!(int(&say(&mut con, "EXISTS new")), 0);
}

/// What a server has on disk it reads back, however little memory it may use.
#[test]
fn without_memory_files_are_loaded_in_full() {
    for aof in ["appendonly no", "appendonly yes"] {
        let mut server = Server::builder().config(aof).config("appendfsync always").start();
        let mut con = server.connection();
        let mut load = Workload::new(6);
        for _ in 0..500 {
            try_call(&mut con, &load.call()).unwrap();
        }
        say(&mut con, "RL.TAKE kept COST 7 BUCKET 1/1h 10 WINDOW 1h 10 LOG LEASE 9 1h ID a");
        let digest = server.digest("kept");
        server.shutdown_save();
        let small = Server::builder()
            .config(aof)
            .config("maxmemory 1")
            .config(format!("dir \"{}\"", server.dir().display()))
            .start();
        assert_eq!(small.digest("kept"), digest, "{aof}");
        assert!(fails(&mut small.connection(), "RL.BUCKET new 1/1h 10").starts_with("OOM"));
        workload::assert_no_propagation_error(&small);
    }
}

#[test]
fn a_replica_without_memory_takes_every_effect() {
    let server = Server::start();
    let replica = Server::builder()
        .config("maxmemory 1")
        .config("maxmemory-policy noeviction")
        .replica_of(&server)
        .start();
    replica.wait_in_sync(&server);
    let mut con = server.connection();
    let mut load = Workload::new(5);
    for _ in 0..500 {
        try_call(&mut con, &load.call()).unwrap();
    }
    replica.wait_in_sync(&server);
    assert_eq!(replica.digest_all(), server.digest_all());
    workload::assert_no_propagation_error(&replica);
}

#[test]
fn a_hammered_key_that_refuses_is_not_evicted() {
    let config = ["maxmemory-policy allkeys-lru", "maxmemory-samples 10"];
    let builder = config.into_iter().fold(Server::builder(), Builder::config);
    let server = builder.start();
    let mut con = server.connection();
    say(&mut con, "RL.BUCKET hot 1/366d 1");
    send_all(&mut con, (0..20_000).map(|n| format!("RL.BUCKET cold:{n} 1/366d 1")));
    // The server's LRU clock ticks once a second.
    let end = Instant::now() + Duration::from_millis(2200);
    while Instant::now() < end {
        assert_eq!(five(&say(&mut con, "RL.BUCKET hot 1/366d 1"))[0], 0);
    }
    let limit = used_memory(&server) - 500_000;
    cmd!(con, "CONFIG", "SET", "maxmemory", limit);
    for n in 0..6_000 {
        say(&mut con, &format!("RL.BUCKET new:{n} 1/366d 1"));
        if n % 10 == 0 {
            assert_eq!(five(&say(&mut con, "RL.BUCKET hot 1/366d 1"))[0], 0, "evicted at {n}");
        }
    }
    let evicted: u64 = server.info("evicted_keys").unwrap().parse().unwrap();
    assert!((6_000..18_000).contains(&evicted), "{evicted} of 20,000 cold keys");
    // An evicted key is a fresh limit, one that is left still refuses.
    for n in 0..100 {
        let is_there = int(&cmd!(con, "EXISTS", format!("cold:{n}"))) == 1;
        let peek = five(&say(&mut con, &format!("RL.PEEK cold:{n} BUCKET 1/366d 1")));
        assert_eq!(peek[0] == 0, is_there, "cold:{n}");
    }
}

#[test]
fn volatile_ttl_drops_the_limits_that_end_first() {
    let server = Server::builder().config("maxmemory-policy volatile-ttl").start();
    let mut con = server.connection();
    cmd!(con, "SET", "data", "x");
    send_all(&mut con, (0..200).map(|n| format!("RL.QUOTA long:{n} year 9")));
    send_all(&mut con, (0..5000).map(|n| format!("RL.WINDOW short:{n} 10m 9")));
    cmd!(con, "CONFIG", "SET", "maxmemory", used_memory(&server));
    send_all(&mut con, (5000..8000).map(|n| format!("RL.WINDOW short:{n} 20m 9")));
    for n in 0..200 {
        assert_eq!(int(&cmd!(con, "EXISTS", format!("long:{n}"))), 1);
    }
    assert_eq!(plain(&cmd!(con, "GET", "data")), "x");
    assert_ne!(server.info("evicted_keys").as_deref(), Some("0"));
}

/// Memory comes back to where it was, but for what the server itself keeps.
#[track_caller]
fn comes_back(server: &Server, before: u64, slack: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    while used_memory(server) > before + slack {
        assert!(Instant::now() < end, "{} used, {before} before", used_memory(server));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn many_keys_expire_and_their_memory_returns() {
    let count = number("RL_MEMORY_KEYS", 30_000);
    let server = Server::builder().config("active-expire-effort 10").config("hz 100").start();
    let mut con = server.connection();
    let before = used_memory(&server);
    let kinds = ["BUCKET 100 9 AS n", "WINDOW 16ms 9", "WINDOW 16ms 9 LOG", "LEASE 9 1ms ID a"];
    let call = |n: u64| {
        let kind = kinds[usize::try_from(n % 4).unwrap()];
        format!("RL.TAKE expiring:{n} BUCKET 1000 9 {kind}")
    };
    send_all(&mut con, (0..count).map(call));
    assert!(used_memory(&server) > before + 1_000_000);
    let end = Instant::now() + Duration::from_secs(60);
    while int(&cmd!(con, "DBSIZE")) > 0 {
        assert!(Instant::now() < end, "keys stay");
        std::thread::sleep(Duration::from_millis(50));
    }
    comes_back(&server, before, 500_000);
}

#[test]
fn calls_leak_nothing() {
    let calls = number("RL_LEAK_CALLS", 20_000);
    let server = Server::start();
    let mut con = server.connection();
    let mut load = Workload::new(77);
    let mut before = 0;
    for n in 0..calls {
        // What fails is freed on another path.
        if load.rng.one_in(10) {
            let mut call = load.call();
            call.push(Vec::new());
            assert!(try_call(&mut con, &call).is_err());
        }
        try_call(&mut con, &load.call()).unwrap();
        if n == 5_000 {
            cmd!(con, "FLUSHALL", "SYNC");
            before = used_memory(&server);
        }
    }
    cmd!(con, "FLUSHALL", "SYNC");
    comes_back(&server, before, 300_000);
}

/// Leases of one key; so many that freeing them is left to another thread.
fn big_key(con: &mut Connection, key: &str) {
    send_all(con, (0..10_000).map(|n| format!("RL.ACQUIRE {key} 65536 1h ID lease-{n}")));
}

#[test]
fn big_keys_are_freed_in_the_background() {
    let server = Server::start();
    let mut con = server.connection();
    // What the server allocates once is there before we measure.
    big_key(&mut con, "warm");
    cmd!(con, "UNLINK", "warm");
    eventually(SOON, || server.info("lazyfree_pending_objects").as_deref() == Some("0"));
    let before = used_memory(&server);
    let freed = |server: &Server| server.info("lazyfreed_objects").unwrap().parse::<u64>().unwrap();
    for free in
        [&["UNLINK", "big"][..], &["FLUSHALL", "ASYNC"], &["DEL", "big"], &["FLUSHDB", "SYNC"]]
    {
        let freed_before = freed(&server);
        big_key(&mut con, "big");
        let usage = int(&cmd!(con, "MEMORY", "USAGE", "big"));
        assert!(usage > 10_000 * 8, "{usage} bytes of 10,000 leases");
        cmd!(con, free);
        eventually(SOON, || server.info("lazyfree_pending_objects").as_deref() == Some("0"));
        if ["UNLINK", "FLUSHALL"].contains(&free[0]) {
            assert!(freed(&server) > freed_before, "{free:?} freed in the foreground");
        }
        comes_back(&server, before, 300_000);
    }
}

#[test]
fn a_long_log_gives_its_memory_back() {
    needs_clock!();
    let clock = Clock::new(workload::START_US);
    let server = Server::builder().clock(&clock).start();
    let mut con = server.connection();
    say(&mut con, "RL.WINDOW big 1h 65536 LOG");
    let one = int(&cmd!(con, "MEMORY", "USAGE", "big"));
    let before = used_memory(&server);
    for round in 0..3 {
        for _ in 0..20_000 {
            clock.advance_ms(1);
            cmd!(con, "RL.WINDOW", "big", "1h", 65_536, "LOG");
        }
        let usage = int(&cmd!(con, "MEMORY", "USAGE", "big"));
        assert!(usage > 20_000 * 8, "{usage} bytes of 20,000 entries");
        assert!(used_memory(&server) > before + 20_000 * 8);
        match round {
            0 => _ = cmd!(con, "UNLINK", "big"),
            1 => _ = cmd!(con, "FLUSHALL", "ASYNC"),
            // All but the last has ended.
            _ => {
                clock.advance_ms(3_599_999);
                say(&mut con, "RL.WINDOW big 1h 65536 LOG");
                let usage = int(&cmd!(con, "MEMORY", "USAGE", "big"));
                assert!(usage < one + 1_000, "{usage} bytes, {one} of one entry");
            }
        }
        comes_back(&server, before, 100_000);
    }
}

#[test]
fn memory_usage_follows_the_size_of_the_state() {
    let server = Server::start();
    let mut con = server.connection();
    say(&mut con, "RL.BUCKET k 1/1h 9");
    let one = int(&cmd!(con, "MEMORY", "USAGE", "k"));
    assert!((48..200).contains(&one), "{one} bytes of one bucket");
    say(&mut con, "RL.TAKE k WINDOW 1h 9 WINDOW 1h 9 LOG QUOTA day 9 LEASE 9 1h ID a");
    let five = int(&cmd!(con, "MEMORY", "USAGE", "k"));
    assert!(five > one + 100, "{five} bytes of five limits, {one} of one");
    for option in ["0", "5"] {
        assert_eq!(int(&cmd!(con, "MEMORY", "USAGE", "k", "SAMPLES", option)), five);
    }
}

#[test]
fn active_defragmentation_keeps_every_limit() {
    let server = Server::start();
    let mut con = server.connection();
    if let Err(e) = try_cmd!(con, "CONFIG", "SET", "activedefrag", "yes") {
        return skipped(&format!("no active defragmentation: {}", error_text(&e)));
    }
    let settings = [
        ("active-defrag-ignore-bytes", "1"),
        ("active-defrag-threshold-lower", "1"),
        ("active-defrag-threshold-upper", "2"),
        ("active-defrag-cycle-min", "40"),
        ("active-defrag-cycle-max", "70"),
    ];
    for (name, value) in settings {
        cmd!(con, "CONFIG", "SET", name, value);
    }
    let take = |n: u64| {
        let more = if n.is_multiple_of(3) {
            " WINDOW 1h 9 QUOTA year 9 AS name WINDOW 1h 9 LOG"
        } else {
            ""
        };
        let lease = if n.is_multiple_of(5) { " LEASE 9 1h ID some-longer-lease-id" } else { "" };
        format!("RL.TAKE k:{n} BUCKET 1/366d 9{more}{lease}")
    };
    send_all(&mut con, (0..30_000).map(take));
    big_key(&mut con, "big");
    let mut rng = Rng::new(3);
    let gone: Vec<u64> = (0..30_000).filter(|_| rng.below(4) > 0).collect();
    send_all(&mut con, gone.iter().map(|n| format!("DEL k:{n}")));
    let digest = server.digest_all();
    let hits = || server.info("active_defrag_key_hits").unwrap().parse::<u64>().unwrap();
    eventually(SOON, || hits() > 100);
    // Everything is read and changed while it goes on.
    for n in 0..2_000 {
        let verdict = five(&say(&mut con, &format!("RL.BUCKET k:{n} 1/366d 9 9")));
        assert_eq!(verdict[0] == 1, gone.contains(&n), "k:{n}");
    }
    for n in gone.iter().filter(|&&n| n < 2_000) {
        say(&mut con, &format!("DEL k:{n}"));
    }
    assert_eq!(server.digest_all(), digest);
    assert_eq!(int(&say(&mut con, "RL.RELEASE big lease-1 lease-9999 lease-10000")), 2);
    let Value::Array(limits) = say(&mut con, "RL.INFO big") else { panic!("no limits") };
    assert_eq!(int(&field(&limits[0], "holders").unwrap()), 9_998);
}
