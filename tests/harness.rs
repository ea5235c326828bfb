//! The test harness itself: what the other tests rely on.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;
use support::*;

use redis::Value;
use std::path::Path;

fn bare() -> Server {
    Server::builder().without_module().start()
}

#[test]
fn starts_answers_and_leaves_nothing_behind() {
    let server = bare();
    let (pid, dir) = (server.pid(), server.dir().to_owned());
    assert_eq!(cmd!(server.connection(), "PING"), Value::SimpleString("PONG".into()));
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the server is still there");
    assert!(!dir.exists(), "its folder is still there");
}

#[test]
fn servers_end_with_the_thread_of_the_process_not_of_the_test() {
    let mut server = std::thread::spawn(bare).join().unwrap();
    // The kernel's signal would be there at once.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(server.is_running());
}

#[test]
fn a_server_that_does_not_start_shows_its_log() {
    let log = Server::builder().without_module().config("no-such-setting 1").try_start();
    assert!(log.as_ref().is_err_and(|log| log.contains("no-such-setting")), "{log:?}");
    let log = Server::builder().config("loadmodule /nowhere.so").without_module().try_start();
    assert!(log.as_ref().is_err_and(|log| log.contains("/nowhere.so")), "{log:?}");
}

#[test]
fn a_server_that_ends_unasked_fails_the_test_and_keeps_its_log() {
    let mut server = bare();
    let dir = server.dir().to_owned();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _ = server.raw().try_call(&[b"SHUTDOWN", b"NOSAVE"]);
        eventually(SOON, || !server.is_running());
    }));
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("ended by itself"), "{message}");
    assert!(dir.join("server.log").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn restarts_from_an_aof_on_the_same_port() {
    let mut server = Server::builder().without_module().aof().start();
    let port = server.port();
    cmd!(server.connection(), "SET", "k", 1);
    server.restart();
    assert_eq!(plain(&cmd!(server.connection(), "GET", "k")), "1");
    cmd!(server.connection(), "INCR", "k");
    server.kill9();
    assert!(!server.is_running());
    server.start_again();
    assert_eq!(plain(&cmd!(server.connection(), "GET", "k")), "2");
    assert_eq!(server.port(), port);
}

#[test]
fn restarts_from_an_rdb_file_only_if_saved() {
    let mut server = bare();
    cmd!(server.connection(), "SET", "k", 1);
    server.shutdown_save();
    server.start_again();
    assert_eq!(plain(&cmd!(server.connection(), "GET", "k")), "1");
    cmd!(server.connection(), "INCR", "k");
    server.kill9();
    server.start_again();
    assert_eq!(plain(&cmd!(server.connection(), "GET", "k")), "1");
}

#[test]
fn shows_replies_and_errors_as_sent() {
    let server = bare();
    let mut con = server.connection();
    assert_eq!(err!(con, "INCRBY", "k", "x"), "ERR value is not an integer or out of range");
    cmd!(con, "RPUSH", "list", b"\xff\x00", "b");
    assert_eq!(
        err!(con, "GET", "list"),
        "WRONGTYPE Operation against a key holding the wrong kind of value"
    );
    assert_eq!(ints(&cmd!(con, "SMISMEMBER", "none", "a", "b")), [0, 0]);
    let mut raw = server.raw();
    let list = raw.call(&[b"LRANGE", b"list", b"0", b"-1"]);
    assert_eq!(escape(&list), r"*2\r\n$2\r\n\xff\x00\r\n$1\r\nb\r\n");
    raw.send(b"PING\r\nGET none\r\n");
    assert_eq!((raw.reply(), raw.reply()), (b"+PONG\r\n".to_vec(), b"$-1\r\n".to_vec()));
    raw.send(b"*1\r\n$-7\r\n");
    assert!(raw.reply().starts_with(b"-ERR Protocol error"));
    assert!(raw.is_closed());
}

#[test]
fn connections_race() {
    let server = bare();
    let mut order = parallel(&server, 100, |con, _| int(&cmd!(con, "INCR", "n")));
    order.sort_unstable();
    assert_eq!(order, (1..=100).collect::<Vec<_>>());
}

#[test]
fn a_cluster_of_one_serves_every_slot() {
    let server = Server::builder().without_module().cluster().start();
    let mut con = server.connection();
    cmd!(con, "MSET", "{a}1", 1, "{a}2", 2);
    assert!(err!(con, "MSET", "a", 1, "b", 2).starts_with("CROSSSLOT"));
}

#[test]
fn speaks_both_protocols() {
    let server = bare();
    cmd!(server.connection(), "HSET", "h", "a", 1);
    let flat = cmd!(server.connection(), "HGETALL", "h");
    let map = cmd!(server.connection3(), "HGETALL", "h");
    assert!(matches!((&flat, &map), (Value::Array(_), Value::Map(_))));
    assert_eq!(field(&flat, "a"), field(&map, "a"));
    let mut raw = server.raw();
    assert!(raw.call(&[b"HELLO", b"3"]).starts_with(b"%"));
    assert_eq!(escape(&raw.call(&[b"HGETALL", b"h"])), r"%1\r\n$1\r\na\r\n$1\r\n1\r\n");
    assert_eq!(escape(&raw.call(&[b"GET", b"none"])), r"_\r\n");
}

#[test]
fn a_tap_sees_the_exact_stream() {
    let server = bare();
    let mut con = server.connection();
    cmd!(con, "SET", "before", 1);
    for attach in [ReplicaTap::attach, ReplicaTap::attach_by_file] {
        let mut tap = attach(&server);
        assert!(tap.commands(&server).is_empty(), "what came before is in the snapshot");
        cmd!(con, "SET", "k", b"\x00v");
        cmd!(con, "GET", "k");
        cmd!(con, "DEL", "none");
        cmd!(con, "MULTI");
        cmd!(con, "INCR", "n");
        cmd!(con, "INCR", "n");
        cmd!(con, "EXEC");
        let seen = text(&tap.commands(&server));
        assert_eq!(seen, [r"SET k \x00v", "MULTI", "INCR n", "INCR n", "EXEC"]);
        assert!(tap.commands(&server).is_empty());
        assert_eq!(server.info("master_repl_offset"), Some(tap.offset().to_string()));
        assert_eq!(int(&cmd!(con, "WAIT", 1, 0)), 1);
    }
}

#[test]
fn a_replica_follows_and_can_be_promoted() {
    let server = bare();
    cmd!(server.connection(), "SET", "k", 1, "PX", 100_000);
    let replica = Server::builder().without_module().replica_of(&server).start();
    replica.wait_in_sync(&server);
    replica.assert_same(&server, "k");
    assert!(err!(replica.connection(), "SET", "k", 2).starts_with("READONLY"));
    replica.promote();
    cmd!(replica.connection(), "SET", "k", 2);
    assert_ne!(replica.digest("k"), server.digest("k"));
}

#[test]
fn the_clock_turns_time_and_expiry() {
    needs_clock!();
    let start_us = 951_782_400_123_456; // 2000-02-29, and a fraction
    let clock = Clock::new(start_us);
    let server = Server::builder().without_module().aof().clock(&clock).start();
    let mut con = server.connection();
    assert_eq!(server.time_us(), start_us);
    cmd!(con, "SET", "k", 1, "PX", 1000);
    assert_eq!(server.pexpiretime("k"), 951_782_401_123);
    clock.advance_ms(1000);
    assert_eq!(plain(&cmd!(con, "GET", "k")), "1", "at its very end a key is still there");
    clock.set_us(951_782_401_123_999);
    assert_eq!(int(&cmd!(con, "PTTL", "k")), 0);
    clock.advance_us(1);
    assert_eq!(cmd!(con, "GET", "k"), Value::Nil);
    clock.step_us(-3_600_000_000);
    assert_eq!(server.time_us(), clock.now_us());
    assert!(clock.now_us() < start_us);
}

#[test]
fn a_year_passes_and_replicas_stay() {
    needs_clock!();
    let clock = Clock::new(1_600_000_000_000_000);
    let server = Server::builder().without_module().clock(&clock).start();
    let replica = Server::builder().without_module().clock(&clock).replica_of(&server).start();
    replica.wait_in_sync(&server);
    let mut tap = ReplicaTap::attach(&server);
    let mut con = server.connection();
    cmd!(con, "SET", "k", 1, "PX", 86_400_000_u64 * 365);
    clock.advance_ms(86_400_000 * 365);
    cmd!(con, "SET", "other", 1);
    replica.wait_in_sync(&server);
    replica.assert_same(&server, "k");
    clock.advance_ms(1);
    assert_eq!(cmd!(con, "GET", "k"), Value::Nil);
    let seen = text(&tap.commands(&server));
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen[2] == "DEL k" || seen[2] == "UNLINK k", "{seen:?}");
}

#[test]
fn the_module_is_built_beside_the_tests() {
    assert!(module_path().is_file());
    assert!(version() >= (7, 0, 0), "Redis 7.0 or newer is needed");
}
