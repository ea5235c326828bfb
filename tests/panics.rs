//! A bug in any function that the server calls ends as an error and a line in the log.
//!
//! Debug builds panic where the environment variable `RL_PANIC_AT` says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
mod workload;
use support::*;
use workload::{say, try_call};

use redis::RedisResult;

const MARK: &str = "limiter: internal error at ";

/// A server that panics at `site`; None where the module under test is not a debug build.
fn panicking(site: &str, builder: Builder) -> Option<Builder> {
    if std::env::var_os("RL_MODULE").is_some() || cfg!(not(debug_assertions)) {
        skipped("only debug builds panic on demand");
        return None;
    }
    Some(builder.env("RL_PANIC_AT", site))
}

fn call(server: &Server, text: &str) -> RedisResult<redis::Value> {
    let words: Vec<Vec<u8>> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    try_call(&mut server.connection(), &words)
}

#[track_caller]
fn assert_survived(server: &mut Server, site: &str) {
    assert_eq!(plain(&cmd!(server.connection(), "PING")), "PONG", "{site}");
    assert!(server.is_running());
    let log = server.log();
    assert!(log.contains(MARK), "{site}: nothing in the log:\n{log}");
    assert!(!log.contains("secret"), "{site}: what a client sent is in the log:\n{log}");
    // A panic's message could hold what a client sent.
    assert!(!log.contains("on demand"), "{site}: the panic's message is in the log:\n{log}");
    assert!(!log.contains("BUG REPORT"), "{site}:\n{log}");
}

#[test]
fn in_a_command_it_is_an_error_reply_and_changes_nothing() {
    let calls = [
        "RL.BUCKET secret 1 1",
        "RL.WINDOW secret 1h 1",
        "RL.QUOTA secret day 1",
        "RL.ACQUIRE secret 1 1h",
        "RL.RELEASE secret a",
        "RL.RENEW secret a 1h",
        "RL.TAKE secret BUCKET 1 1",
        "RL.PEEK secret BUCKET 1 1",
        "RL.REFUND secret BUCKET 1 1",
        "RL.MTAKE KEY secret BUCKET 1 1",
        "RL.MPEEK KEY secret BUCKET 1 1",
        "RL.MREFUND KEY secret BUCKET 1 1",
        "RL.INFO secret",
        "RL.RESET secret LEASE",
        "CL.THROTTLE secret 1 1 1",
        "RL.E secret x",
    ];
    for text in calls {
        let command = text.split(' ').next().unwrap();
        let Some(builder) = panicking(command, Server::builder()) else { return };
        let mut server = builder.start();
        for _ in 0..2 {
            let error = error_text(&call(&server, text).expect_err(command));
            assert!(error.starts_with("ERR"), "{command}: {error}");
        }
        // The connection is in step: the next reply belongs to the next call.
        let mut con = server.connection();
        assert!(
            try_cmd!(
                con,
                "EVAL",
                "return redis.call(ARGV[1], KEYS[1], 1, 1)",
                1,
                "secret",
                command
            )
            .is_err()
        );
        assert_eq!(plain(&cmd!(con, "ECHO", "x")), "x");
        assert_eq!(int(&cmd!(con, "DBSIZE")), 0);
        assert_survived(&mut server, command);
    }
}

/// Things to do with a key that holds limits, and the function of ours that each reaches.
const CALLBACKS: &[(&str, &str)] = &[
    ("getkeys", "COMMAND GETKEYS RL.MTAKE KEY secret BUCKET 1 1"),
    ("rdb_save", "DUMP secret"),
    ("digest", "DEBUG DIGEST"),
    ("mem_usage", "MEMORY USAGE secret"),
    ("copy", "COPY secret other"),
    ("free", "DEL secret"),
    ("free_effort", "UNLINK secret"),
    ("info", "INFO modules"),
    ("config_get", "CONFIG GET limiter.*"),
];

#[test]
fn in_a_callback_the_server_goes_on() {
    for (site, text) in CALLBACKS {
        let Some(builder) = panicking(site, Server::builder()) else { return };
        let mut server = builder.start();
        say(&mut server.connection(), "RL.TAKE secret BUCKET 1/1h 9 LEASE 9 1h ID secret-id");
        // Whether it answers an error is up to the server.
        let _ = call(&server, text);
        assert_eq!(five(&say(&mut server.connection(), "RL.BUCKET again 1/1h 9"))[2], 8, "{site}");
        assert_survived(&mut server, site);
    }
}

#[test]
fn a_payload_that_cannot_be_loaded_fails_only_its_restore() {
    let plain_server = Server::start();
    say(&mut plain_server.connection(), "RL.BUCKET secret 1/1h 9");
    let redis::Value::BulkString(dump) = cmd!(plain_server.connection(), "DUMP", "secret") else {
        panic!("no dump")
    };
    let Some(builder) = panicking("rdb_load", Server::builder()) else { return };
    let mut server = builder.start();
    assert!(try_cmd!(server.connection(), "RESTORE", "secret", 0, &dump[..]).is_err());
    assert_eq!(int(&cmd!(server.connection(), "DBSIZE")), 0);
    assert_survived(&mut server, "rdb_load");
}

#[test]
fn a_background_save_or_rewrite_fails_and_the_old_files_stay() {
    for (site, job, status) in [
        ("rdb_save", "BGSAVE", "rdb_last_bgsave_status"),
        ("aof_rewrite", "BGREWRITEAOF", "aof_last_bgrewrite_status"),
    ] {
        let aof = Server::builder().aof().config("aof-use-rdb-preamble no");
        let Some(builder) = panicking(site, aof) else { return };
        let mut server = builder.start();
        say(&mut server.connection(), "RL.BUCKET secret 1/1h 9");
        cmd!(server.connection(), job);
        eventually(SOON, || server.info(status).as_deref() == Some("err"));
        assert_survived(&mut server, site);
        // The AOF that was there before still has everything.
        server.kill9();
        server.start_again();
        assert_eq!(five(&say(&mut server.connection(), "RL.BUCKET secret 1/1h 9"))[2], 7);
    }
}

#[test]
fn while_loading_it_is_a_module_that_does_not_load() {
    let Some(builder) = panicking("load", Server::builder()) else { return };
    let log = builder.try_start().unwrap_err();
    assert!(log.contains(MARK), "{log}");
    assert!(!log.contains("BUG REPORT"), "{log}");
}
