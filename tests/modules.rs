//! Loading, loading twice, unloading; a server without the module, and one that is too old for it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
mod workload;
use support::*;
use workload::say;

use redis::Value;

fn modules(server: &Server) -> Vec<(String, i64)> {
    let Value::Array(list) = cmd!(server.connection(), "MODULE", "LIST") else { panic!("no list") };
    let one = |module: &Value| {
        (plain(&field(module, "name").unwrap()), int(&field(module, "ver").unwrap()))
    };
    list.iter().map(one).filter(|(name, _)| name == "limiter").collect()
}

#[test]
fn the_module_says_who_it_is() {
    let server = Server::start();
    let version: Vec<i64> =
        env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap()).collect();
    let version = version[0] * 10_000 + version[1] * 100 + version[2];
    assert_eq!(modules(&server), [("limiter".to_owned(), version)]);
}

#[test]
fn unloading_is_refused_and_harms_nothing() {
    let server = Server::builder().config("enable-module-command yes").start();
    let mut con = server.connection();
    say(&mut con, "RL.BUCKET k 1/1h 5");
    let digest = server.digest_all();
    let error = err!(con, "MODULE", "UNLOAD", "limiter");
    assert!(error.contains("data type"), "{error}");
    assert_eq!(server.digest_all(), digest);
    assert_eq!(five(&say(&mut con, "RL.BUCKET k 1/1h 5"))[2], 3);
}

#[test]
fn loading_twice_at_run_time_is_refused_and_harms_nothing() {
    let server = Server::builder().config("enable-module-command yes").start();
    let mut con = server.connection();
    say(&mut con, "RL.BUCKET k 1/1h 5");
    let path = module_path().display().to_string();
    for _ in 0..3 {
        assert!(err!(con, "MODULE", "LOAD", &path).starts_with("ERR"));
        assert_eq!(five(&say(&mut con, "RL.BUCKET k 1/1h 5 0"))[0], 1);
    }
    assert_eq!(modules(&server).len(), 1);
    assert_eq!(five(&say(&mut con, "RL.BUCKET k 1/1h 5"))[2], 3);
    cmd!(con, "DEBUG", "RELOAD");
    assert_eq!(five(&say(&mut con, "RL.BUCKET k 1/1h 5"))[2], 2);
}

#[test]
fn a_second_loadmodule_line_stops_the_start_with_a_message() {
    let line = format!("loadmodule \"{}\"", module_path().display());
    let log = Server::builder().config(line).try_start().unwrap_err();
    assert!(log.contains("libredis_limiter.so"), "{log}");
    assert!(log.contains("there is already a module called limiter"), "{log}");
    assert!(!log.contains("BUG REPORT"), "{log}");
}

/// As after an upgrade in place: another file, the same module.
#[test]
fn a_copy_beside_it_is_refused_and_harms_nothing() {
    let server = Server::builder().config("enable-module-command yes").start();
    let mut con = server.connection();
    say(&mut con, "RL.TAKE k BUCKET 1/1h 5 WINDOW 1h 5 LOG LEASE 5 1h ID held");
    let digest = server.digest_all();
    let copy = server.file("copy.so");
    std::fs::copy(module_path(), &copy).unwrap();
    for _ in 0..3 {
        assert!(err!(con, "MODULE", "LOAD", copy.display().to_string()).starts_with("ERR"));
        assert!(server.log().contains("there is already a module called limiter"));
        assert_eq!(server.digest_all(), digest);
    }
    cmd!(con, "DEBUG", "RELOAD");
    assert_eq!(server.digest_all(), digest);
    assert_eq!(five(&say(&mut con, "RL.BUCKET k 1/1h 5"))[2], 3);
    assert_eq!(modules(&server).len(), 1);
}

#[test]
fn a_wrong_argument_stops_the_start_with_a_message() {
    for args in [&["no-such-option", "yes"][..], &["cl-throttle", "perhaps"], &["cl-throttle"]] {
        let log = Server::builder().module_args(args).try_start().unwrap_err();
        assert!(log.contains("limiter"), "{args:?}: {log}");
        assert!(!log.contains("BUG REPORT"), "{args:?}: {log}");
    }
}

#[test]
fn it_can_be_loaded_into_a_running_server() {
    let server = Server::builder().without_module().config("enable-module-command yes").start();
    let mut con = server.connection();
    cmd!(con, "SET", "k", 1);
    cmd!(con, "MODULE", "LOAD", module_path().display().to_string());
    assert_eq!(five(&say(&mut con, "RL.BUCKET b 1/1h 5"))[0], 1);
    assert!(err!(con, "RL.BUCKET", "k", 1, 1).starts_with("WRONGTYPE"));
    assert_eq!(modules(&server).len(), 1);
}

/// The server takes such a module out again, or not. (Valkey 8.1 and 9.1 crash, whatever the module, if
/// it has a data type: docs/operating.md.)
#[test]
fn a_wrong_setting_of_loadex_does_no_harm() {
    if is_valkey() {
        skipped("Valkey crashes by itself");
        return;
    }
    let server = Server::builder().without_module().config("enable-module-command yes").start();
    let mut con = server.connection();
    let path = module_path().display().to_string();
    for setting in ["limiter.nonsense", "limiter.cl-throttle"] {
        let error = err!(con, "MODULE", "LOADEX", &path, "CONFIG", setting, "x");
        assert!(error.starts_with("ERR"), "{error}");
    }
    if modules(&server).is_empty() {
        cmd!(con, "MODULE", "LOADEX", &path, "CONFIG", "limiter.cl-throttle", "no");
        assert!(err!(con, "CL.THROTTLE", "k", 1, 1, 1).starts_with("ERR unknown command"));
    }
    assert_eq!(five(&say(&mut con, "RL.BUCKET k 1/1h 5"))[2], 4);
    if version() >= (7, 2, 0) {
        assert!(plain(&say(&mut con, "ACL CAT ratelimit")).contains("rl.bucket"));
        assert!(!server.log().contains("refuses the ACL category"), "{}", server.log());
    }
    cmd!(con, "DEBUG", "RELOAD");
    assert_eq!(five(&say(&mut con, "RL.BUCKET k 1/1h 5"))[2], 3);
}

#[test]
fn a_server_without_the_module_refuses_its_file() {
    let mut server = Server::start();
    say(&mut server.connection(), "RL.BUCKET k 1/1h 5");
    server.shutdown_save();
    let dump = server.file("dump.rdb");
    let dir = server.dir().to_owned();
    let log = Server::builder()
        .without_module()
        .config(format!("dir \"{}\"", dir.display()))
        .config("dbfilename dump.rdb")
        .try_start()
        .unwrap_err();
    assert!(log.contains("rl-limits"), "{log}");
    assert!(dump.exists());
    server.start_again();
    assert_eq!(five(&say(&mut server.connection(), "RL.BUCKET k 1/1h 5"))[2], 3);
}

const TOO_OLD: &str = "limiter: not loaded: it needs Redis 7.0 or newer, or Valkey; this server does not \
                       offer RedisModule_GetCommand";

/// Ends the calling test, saying why, when no server that is too old has been fetched.
macro_rules! old_server {
    () => {
        match old_server_program() {
            Some(program) => Server::builder().old_program(program),
            None => return skipped("Redis 6.2 is not here; scripts/servers fetches it"),
        }
    };
}

#[test]
fn a_server_that_is_too_old_stops_at_start_with_a_message() {
    let log = old_server!().try_start().unwrap_err();
    assert!(log.starts_with("exit status: 1\n"), "{log}");
    assert!(log.contains(TOO_OLD), "{log}");
    assert!(!log.contains("BUG REPORT"), "{log}");
}

#[test]
fn a_running_server_that_is_too_old_refuses_the_module_and_goes_on() {
    let mut server = old_server!().without_module().start();
    let mut con = server.connection();
    cmd!(con, "SET", "k", "before");
    for attempt in 1..=3 {
        let error = err!(con, "MODULE", "LOAD", module_path().display().to_string());
        assert!(error.starts_with("ERR"), "{error}");
        assert_eq!(server.log().matches(TOO_OLD).count(), attempt, "{}", server.log());
        assert_eq!(plain(&cmd!(con, "PING")), "PONG");
        cmd!(con, "SET", format!("k{attempt}"), attempt);
        assert_eq!(plain(&cmd!(con, "GET", format!("k{attempt}"))), attempt.to_string());
    }
    assert_eq!(modules(&server), []);
    assert!(err!(con, "RL.BUCKET", "b", 1, 1).starts_with("ERR unknown command"));
    // Nothing of the module was left in its data: they are saved and read without it.
    server.shutdown_save();
    server.start_again();
    assert_eq!(plain(&cmd!(server.connection(), "GET", "k")), "before");
    assert_eq!(int(&cmd!(server.connection(), "DBSIZE")), 4);
}
