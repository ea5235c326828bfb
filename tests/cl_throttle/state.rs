//! What a call stores, replicates, shares and counts.

use super::support::*;
use super::throttle;
use redis::Value;

#[test]
fn only_a_change_is_written() {
    let server = Server::start();
    let replica = server.replica();
    let mut tap = ReplicaTap::attach(&server);
    let mut con = server.connection();
    let effects = |tap: &mut ReplicaTap| {
        let seen = tap.commands(&server);
        assert!(seen.iter().all(|effect| effect[0] == b"RL.E" && effect[1] == b"k"), "{seen:?}");
        seen.len()
    };
    throttle(&mut con, "k 4 1 3600 0");
    throttle(&mut con, "k 4 1 3600 9");
    throttle(&mut con, "k 4 1 3600 -1");
    assert_eq!((effects(&mut tap), int(&cmd!(con, "EXISTS", "k"))), (0, 0));
    throttle(&mut con, "k 4 1 3600 5");
    assert_eq!(effects(&mut tap), 1);
    let expires = server.pexpiretime("k");
    throttle(&mut con, "k 4 1 3600 0");
    throttle(&mut con, "k 4 1 3600");
    assert_eq!((effects(&mut tap), server.pexpiretime("k")), (0, expires));
    throttle(&mut con, "k 4 1 3600 -2");
    assert_eq!(effects(&mut tap), 1);
    replica.wait_in_sync(&server);
    replica.assert_same(&server, "k");
    assert_ne!(int(&cmd!(con, "EXISTS", "k")), 0);
    throttle(&mut con, "k 4 1 3600 -100");
    assert_eq!((effects(&mut tap), int(&cmd!(con, "EXISTS", "k"))), (1, 0));
    replica.wait_in_sync(&server);
    assert_eq!(int(&cmd!(replica.connection(), "EXISTS", "k")), 0);
    assert!(err!(replica.connection(), "CL.THROTTLE", "k", 0, 1, 1).starts_with("READONLY"));
}

#[test]
fn a_refusal_leaves_watch_alone_and_a_charge_does_not() {
    let server = Server::start();
    let (mut con, mut other) = (server.connection(), server.connection());
    throttle(&mut con, "k 0 1 3600");
    for (call, goes_on) in [("k 0 1 3600", true), ("k 0 1 3600 0", true), ("k 1 1 3600", false)] {
        cmd!(con, "WATCH", "k");
        throttle(&mut other, call);
        cmd!(con, "MULTI");
        cmd!(con, "PING");
        assert_eq!(cmd!(con, "EXEC") != Value::Nil, goes_on, "{call}");
    }
}

#[test]
fn transactions_and_an_aof_keep_the_state() {
    let mut server = Server::builder().aof().start();
    let mut con = server.connection();
    cmd!(con, "MULTI");
    cmd!(con, "CL.THROTTLE", "k", 9, 1, 3600, 2);
    cmd!(con, "CL.THROTTLE", "k", 9, 1, 3600, 3);
    let Value::Array(replies) = cmd!(con, "EXEC") else { panic!("not an array") };
    assert_eq!(ints(&replies[1]), [0, 10, 5, -1, 18_000]);
    let before = (server.digest("k"), server.pexpiretime("k"));
    server.kill9();
    server.start_again();
    assert_eq!((server.digest("k"), server.pexpiretime("k")), before);
    let after = throttle(&mut server.connection(), "k 9 1 3600 0");
    assert_eq!(after[..4], [0, 10, 5, -1]);
    // The restart takes a while.
    assert!((17_900..=18_000).contains(&after[4]), "{after:?}");
}

#[test]
fn the_bucket_is_that_of_rl_bucket_beside_the_other_limits_of_the_key() {
    let server = Server::start();
    let mut con = server.connection();
    cmd!(con, "RL.QUOTA", "k", "year", 100, 7);
    cmd!(con, "RL.BUCKET", "k", "1/1h", 5, 2, "AS", "named");
    cmd!(con, "RL.BUCKET", "k", "30/1h", 5, 2);
    assert_eq!(throttle(&mut con, "k 4 30 3600"), [0, 5, 2, -1, 360]);
    assert_eq!(five(&cmd!(con, "RL.BUCKET", "k", "30/1h", 5))[..3], [1, 5, 1]);
    cmd!(con, "RL.BUCKET", "k", "30/1h", 5, 5, "FORCE");
    assert_eq!(throttle(&mut con, "k 4 30 3600"), [1, 5, 0, 600, 1_080]);
    assert_eq!(throttle(&mut con, "k 4 30 3600 -9"), [0, 5, 5, -1, 0]);
    let limits = cmd!(con, "RL.INFO", "k");
    assert!(matches!(&limits, Value::Array(items) if items.len() == 2), "{limits:?}");
}

#[test]
fn a_clock_that_steps_back_locks_nobody_out() {
    needs_clock!();
    let clock = Clock::new(1_700_000_000_000_000);
    let server = Server::builder().clock(&clock).start();
    let replica = Server::builder().clock(&clock).replica_of(&server).start();
    replica.wait_in_sync(&server);
    let mut con = server.connection();
    throttle(&mut con, "k 0 1 10");
    clock.step_us(-3_600_000_000);
    let stored = server.digest("k");
    assert_eq!(throttle(&mut con, "k 0 1 10 0"), [0, 1, 0, -1, 10]);
    assert_eq!(server.digest("k"), stored);
    assert_eq!(throttle(&mut con, "k 0 1 10"), [1, 1, 0, 10, 10]);
    assert_ne!(server.digest("k"), stored);
    replica.wait_in_sync(&server);
    replica.assert_same(&server, "k");
    clock.advance_ms(10_000);
    assert_eq!(throttle(&mut con, "k 0 1 10"), [0, 1, 0, -1, 10]);
}

/// One unit in 292 years: the slowest rate, of which less than a unit is left in use.
#[test]
fn a_bucket_that_lasts_for_ever_is_saved_and_loaded() {
    needs_clock!();
    let clock = Clock::new(1_774_744_200_000_123);
    let mut server = Server::builder().clock(&clock).start();
    let mut con = server.connection();
    throttle(&mut con, "k 5 1 9223372036");
    clock.advance_ms(10_000);
    throttle(&mut con, "k 5 1 9223372036");
    assert_eq!(throttle(&mut con, "k 5 1 9223372036 -1"), [0, 6, 5, -1, 9_223_372_028]);
    let digest = server.digest("k");
    cmd!(con, "DEBUG", "RELOAD");
    assert_eq!(server.digest("k"), digest);
    server.shutdown_save();
    server.start_again();
    assert_eq!(server.digest("k"), digest);
    assert_eq!(throttle(&mut server.connection(), "k 5 1 9223372036 0")[4], 9_223_372_028);
}

#[test]
fn a_full_server_refuses_new_keys_only() {
    let server = Server::start();
    let mut con = server.connection();
    throttle(&mut con, "k 4 1 3600");
    let instant_ns = (server.time_us() + 3_600_000_000) * 1_000;
    cmd!(con, "SET", "old", instant_ns, "PXAT", instant_ns / 1_000_000);
    cmd!(con, "CONFIG", "SET", "maxmemory", 1);
    assert!(err!(con, "CL.THROTTLE", "new", 4, 1, 3600).starts_with("OOM"));
    assert_eq!(throttle(&mut con, "new 4 1 3600 0"), [0, 5, 5, -1, 0]);
    assert_eq!(throttle(&mut con, "k 4 1 3600"), [0, 5, 3, -1, 7_200]);
    assert_eq!(throttle(&mut con, "old 4 1 3600"), [0, 5, 3, -1, 7_200]);
}

#[test]
fn it_counts_as_a_bucket() {
    let server = Server::start();
    let mut con = server.connection();
    throttle(&mut con, "k 1 1 3600 2");
    throttle(&mut con, "k 1 1 3600 0");
    throttle(&mut con, "k 1 1 3600");
    throttle(&mut con, "k 1 1 3600 -1");
    err!(con, "CL.THROTTLE", "k", 1, 1, 0);
    let count = |name: &str| server.info(&format!("limiter_{name}")).unwrap();
    for (name, value) in [
        ("calls", "5"),
        ("errors", "1"),
        ("bucket_admitted", "2"),
        ("bucket_refused", "1"),
        ("keys_created", "1"),
    ] {
        assert_eq!(count(name), value, "{name}");
    }
}

#[test]
fn an_event_is_raised_only_for_a_change() {
    let server = Server::builder().config("notify-keyspace-events KEA").start();
    let mut con = server.connection();
    let mut raw = server.raw();
    raw.call(&[b"SUBSCRIBE", b"__keyspace@0__:k"]);
    throttle(&mut con, "k 4 1 3600 0");
    throttle(&mut con, "k 4 1 3600 9");
    throttle(&mut con, "k 4 1 3600");
    cmd!(con, "PUBLISH", "__keyspace@0__:k", "end");
    let mut seen = Vec::new();
    while seen.last().is_none_or(|line: &String| !line.ends_with(r"end\r\n")) {
        seen.push(escape(&raw.reply()));
    }
    let ours = seen.iter().filter(|line| line.ends_with(r"cl.throttle\r\n")).count();
    assert_eq!(ours, 1, "{seen:?}");
}

#[test]
fn the_server_knows_the_command() {
    let server = Server::start();
    let mut con = server.connection();
    assert_eq!(plain(&cmd!(con, "COMMAND", "GETKEYS", "CL.THROTTLE", "k", 1, 1, 1)), "[k]");
    let info = plain(&cmd!(con, "COMMAND", "INFO", "CL.THROTTLE"));
    assert!(info.contains("cl.throttle, -5, [write, "), "{info}");
    let docs = plain(&cmd!(con, "COMMAND", "DOCS", "CL.THROTTLE"));
    for word in ["max_burst", "count", "period", "quantity", "redis-cell"] {
        assert!(docs.contains(word), "{word}: {docs}");
    }
}
