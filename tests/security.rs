//! What users with few rights can reach, and what the server's log shows of what clients send.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use redis::{Connection, ConnectionLike as _, Value};
use support::*;

/// Every command that writes, with one key or the last of several in place of `@`.
const WRITING: [&str; 18] = [
    "RL.BUCKET @ 1/1h 5",
    "RL.BUCKET @ 1/1h 5 0",
    "RL.BUCKET @ 1/1h 0",
    "RL.WINDOW @ 1h 5",
    "RL.QUOTA @ day 5",
    "RL.ACQUIRE @ 5 1h",
    "RL.RELEASE @ held",
    "RL.RENEW @ held 1h",
    "RL.TAKE @ BUCKET 1/1h 5",
    "RL.REFUND @ BUCKET 1/1h 5",
    "RL.RESET @ BUCKET",
    "RL.MTAKE KEY @ BUCKET 1/1h 5",
    "RL.MTAKE KEY rl:b BUCKET 1/1h 5 KEY @ BUCKET 1/1h 5",
    "RL.MTAKE COST 1 key @ LEASE 5 1h ID KEY Key rl:b BUCKET 1/1h 5 AS KEY",
    "RL.MREFUND KEY @ BUCKET 1/1h 5",
    "RL.MREFUND KEY rl:b BUCKET 1/1h 5 KEY @ BUCKET 1/1h 5 KEY rl:c BUCKET 1/1h 5",
    "CL.THROTTLE @ 4 1 3600",
    "CL.THROTTLE @ 4 1 3600 0",
];

/// Every command that only reads.
const READING: [&str; 4] = [
    "RL.PEEK @ BUCKET 1/1h 5",
    "RL.MPEEK KEY @ BUCKET 1/1h 5",
    "RL.MPEEK KEY rl:b BUCKET 1/1h 5 AS KEY KEY @ BUCKET 1/1h 5",
    "RL.INFO @",
];

/// Whether the server lets modules put commands into categories.
fn has_categories() -> bool {
    is_valkey() || version() >= (7, 2, 0)
}

fn filled() -> Server {
    let server = Server::start();
    let mut con = server.connection();
    for key in ["rl:a", "rl:b", "other"] {
        con.ask(&format!("RL.TAKE {key} COST 2 BUCKET 1/1h 5 LEASE 5 1h ID held"));
    }
    let library = "#!lua name=lib\nredis.register_function('call', function(_, args) return redis.call(unpack(args)) end)";
    cmd!(con, "FUNCTION", "LOAD", library);
    server
}

fn login(server: &Server, rights: &str) -> Connection {
    let mut con = server.connection();
    con.ask(&format!("ACL SETUSER u reset on >p {rights}"));
    con.ask("AUTH u p");
    con
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The call is refused for want of rights in every way that there is to send it, and changes nothing.
#[track_caller]
fn is_denied(server: &Server, con: &mut Connection, call: &[Vec<u8>]) {
    let shown = call.iter().map(|word| escape(word)).collect::<Vec<_>>().join(" ");
    let before = (server.digest_all(), server.info("limiter_calls"));
    let mut send = |first: &[&str]| {
        let mut command = redis::Cmd::new();
        first.iter().for_each(|word| _ = command.arg(word));
        call.iter().for_each(|word| _ = command.arg(word.as_slice()));
        match con.req_command(&command).and_then(Value::extract_error) {
            Ok(reply) => panic!("{first:?} {shown}: {reply:?}"),
            Err(e) => error_text(&e),
        }
    };
    let error = send(&[]);
    assert!(error.starts_with("NOPERM"), "{shown}: {error}");
    // A script runs with the rights of its caller, whatever keys it declares.
    for script in [&["EVAL", "return redis.call(unpack(ARGV))", "0"][..], &["FCALL", "call", "0"]] {
        let error = send(script);
        // Each server has its own words.
        let denied = [
            "NOPERM",
            "can't run this command",
            "can't access at least one of the keys",
            "ACL failure",
        ];
        assert!(denied.iter().any(|text| error.contains(text)), "{shown}: {error}");
    }
    con.ask("MULTI");
    let mut command = redis::Cmd::new();
    call.iter().for_each(|word| _ = command.arg(word.as_slice()));
    con.req_command(&command).and_then(Value::extract_error).unwrap_err();
    assert!(con.error("EXEC").starts_with("EXECABORT"), "{shown}");
    assert_eq!((server.digest_all(), server.info("limiter_calls")), before, "{shown}");
}

#[test]
fn who_may_read_cannot_write() {
    let server = filled();
    let plain = "+eval +fcall +multi +exec +ping";
    let mut rights =
        vec!["%R~rl:* +@all".to_owned(), format!("~* +rl.peek +rl.mpeek +rl.info {plain}")];
    if has_categories() {
        rights.push(format!("~* +@read {plain}"));
    }
    for rights in rights {
        let mut con = login(&server, &rights);
        let before = server.digest_all();
        for call in READING {
            let line = call.replace('@', "rl:a");
            con.ask(&line);
            con.ask(&format!("FCALL call 0 {line}"));
        }
        assert_eq!(server.digest_all(), before);
        for call in WRITING {
            is_denied(&server, &mut con, &words(&call.replace('@', "rl:a")));
        }
    }
}

/// A verdict tells what a key holds: who may not read it gets none.
#[test]
fn who_may_only_write_learns_nothing() {
    let server = filled();
    let mut con = login(&server, "%W~rl:* +@all");
    for call in WRITING.iter().chain(&READING) {
        is_denied(&server, &mut con, &words(&call.replace('@', "rl:a")));
    }
}

#[test]
fn every_key_of_a_call_counts() {
    let server = filled();
    let mut con = login(&server, "~rl:* %R~other +@all");
    for call in WRITING {
        con.ask(&call.replace('@', "rl:a"));
        for foreign in ["other", "missing", "RL:A", "KEY", "rl"] {
            is_denied(&server, &mut con, &words(&call.replace('@', foreign)));
        }
    }
    for call in READING {
        con.ask(&call.replace('@', "rl:a"));
        con.ask(&call.replace('@', "other"));
        is_denied(&server, &mut con, &words(&call.replace('@', "missing")));
    }
    // A malformed call may show keys too; it is refused one way or the other and changes nothing.
    let before = server.digest_all();
    for call in ["RL.MTAKE KEY rl:a BUCKET KEY other 1", "RL.MTAKE KEY rl:a BUCKET 1 5 KEY other"] {
        con.error(call);
    }
    assert_eq!(server.digest_all(), before);
    // Nor does any other command give the data away or take them.
    for call in ["DUMP missing", "COPY rl:a missing", "RENAME rl:a missing", "COPY missing rl:a"] {
        assert!(con.error(call).starts_with("NOPERM"), "{call}");
    }
}

#[test]
fn the_internal_command_is_out_of_reach() {
    let server = filled();
    let mut admin = server.connection();
    let mut tap = ReplicaTap::attach(&server);
    admin.ask("RL.BUCKET rl:c 1/1h 5");
    let effect = tap.commands(&server).into_iter().find(|sent| sent[0] == b"RL.E").unwrap();
    let call = |name: &str| vec![name.into(), b"rl:a".to_vec(), effect[2].clone()];
    let mut rights = vec!["~* +@all -rl.e", "~* -@all +@ratelimit +eval +fcall +multi +exec +ping"];
    if has_categories() {
        rights.extend(["~* +@all -@dangerous", "~* +@all -@admin"]);
        rights.push("~* +@read +@write +@fast +@slow +@scripting +@transaction +@connection");
    } else {
        rights.pop();
        // Without categories of modules no category holds it.
        rights.push("~* +@read +@write +@fast +@slow +@scripting +@transaction +@connection");
    }
    for rights in rights {
        let mut con = login(&server, rights);
        for name in ["RL.E", "rl.e", "Rl.E"] {
            is_denied(&server, &mut con, &call(name));
        }
    }
    // The effect itself is a good one.
    cmd!(admin, "RL.E", "rl:a", &effect[2][..]);
}

/// With the log at its most talkative.
#[test]
fn the_log_shows_nothing_of_what_clients_send() {
    const SECRET: &str = "secret5b1e";
    let server = Server::builder().config("loglevel debug").start();
    let mut con = server.connection();
    let long = SECRET.repeat(20_000);
    for key in [SECRET, &long] {
        for call in WRITING.iter().chain(&READING) {
            let call = call.replace('@', key).replace("held", SECRET);
            con.ask(&call);
            for extra in [SECRET, "9223372036854775808", &long] {
                let _ = con.try_ask(&format!("{call} {extra}"));
            }
            for at in 2..call.split(' ').count() {
                let mut words = words(&call);
                words[at] = SECRET.as_bytes().to_vec();
                let mut command = redis::Cmd::new();
                words.iter().for_each(|word| _ = command.arg(word.as_slice()));
                let _ = con.req_command(&command);
            }
        }
        con.ask(&format!("RL.BUCKET {key} 1/1h 5 AS {SECRET}"));
        con.ask(&format!("RL.ACQUIRE {key} 5 1h ID {SECRET} AS {SECRET}"));
        assert!(con.error(&format!("RL.E {key} {SECRET}")).starts_with("ERR not a valid effect"));
        assert!(con.error(&format!("RL.QUOTA {key} day 5 TZ {SECRET}")).starts_with("ERR TZ"));
        assert!(
            con.error(&format!("EVAL return{{redis.call('rl.bucket',KEYS[1])}} 1 {key}"))
                .contains("ERR")
        );
        let Value::BulkString(dump) = cmd!(con, "DUMP", key) else { panic!("no dump") };
        con.ask(&format!("DEL {key}"));
        // Damaged anywhere: the server finds a wrong checksum, we what is behind a right one
        // (tests/forged.rs).
        for at in (0..dump.len()).step_by(7) {
            let mut bad = dump.clone();
            bad[at] ^= 1;
            assert!(try_cmd!(con, "RESTORE", key, 0, bad).is_err());
        }
        cmd!(con, "RESTORE", key, 0, dump);
        cmd!(con, "DEBUG", "RELOAD");
        con.ask(&format!("SET {key} {SECRET}"));
        assert!(con.error(&format!("RL.BUCKET {key} 1 1")).starts_with("WRONGTYPE"));
        con.ask("FLUSHALL");
    }
    let log = server.log();
    assert!(!log.contains(SECRET), "{log}");
}
