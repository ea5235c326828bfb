//! Loading, loading twice, unloading; and a server without the module.
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
