//! Random commands, right and wrong, on few keys of a live server with a replica. It must stay alive,
//! answer within the grammar, and hold the same as its replica in the end.
//!
//! `RL_FUZZ_COMMANDS` is the number of commands (default 40,000), `RL_FUZZ_SEED` the seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fuzz;
mod support;
mod workload;
use fuzz::{Fuzzer, Session};
use support::*;
use workload::{Call, show};

use redis::{Connection, ConnectionLike as _, Value};
use std::collections::BTreeSet;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Sends a pipeline; every call has one reply.
#[track_caller]
fn send(con: &mut Connection, batch: &[Call], seed: u64) -> Vec<Value> {
    let mut pipe = redis::Pipeline::new();
    for call in batch {
        let mut command = redis::Cmd::new();
        for word in call {
            command.arg(word.as_slice());
        }
        pipe.add_command(command);
    }
    match con.req_packed_commands(&pipe.get_packed_pipeline(), 0, batch.len()) {
        Ok(replies) => replies,
        Err(e) => {
            let calls: Vec<String> = batch.iter().map(|call| show(call)).collect();
            panic!("seed {seed}: {e}\nafter one of\n{}", calls.join("\n"))
        }
    }
}

fn is_error(reply: &Value, part: &str) -> bool {
    matches!(reply, Value::ServerError(e) if e.details().is_some_and(|text| text.contains(part)))
}

/// What must be among the commands that were answered without an error.
const MIX: &str = "RL.BUCKET RL.WINDOW RL.QUOTA RL.ACQUIRE RL.RELEASE RL.RENEW RL.TAKE RL.PEEK RL.REFUND \
                   RL.MTAKE RL.MPEEK RL.MREFUND RL.INFO RL.RESET RL.E CL.THROTTLE SET DEL EXPIRE \
                   PERSIST RENAME COPY RESTORE CONFIG FLUSHALL SWAPDB MOVE SELECT EXEC EVAL";

#[test]
fn random_commands_do_no_harm() {
    let (commands, seed) = (number("RL_FUZZ_COMMANDS", 40_000), number("RL_FUZZ_SEED", 1));
    let configure = |b: Builder| {
        b.config("propagation-error-behavior panic")
            .config("lazyfree-lazy-expire no")
            .config("client-output-buffer-limit replica 0 0 0")
            .config("repl-backlog-size 16mb")
    };
    let mut server = configure(Server::builder()).start();
    let mut replica = configure(Server::builder()).replica_of(&server).start();
    replica.wait_in_sync(&server);
    // Both protocols in turn; what one has queued or watches, the other changes.
    let mut sessions = [server.connection(), server.connection3()].map(Session::new);
    let mut fuzzer = Fuzzer::new(seed);
    fuzzer.learn_effects(&server);
    let (mut sent, mut admitted, mut errors) = (0, 0_u64, 0_u64);
    let (mut restored, mut rejected) = (0_u64, 0_u64);
    let mut mix = BTreeSet::new();
    while sent < commands {
        let batch: Vec<Call> = (0..60).map(|_| fuzzer.call()).collect();
        sessions.rotate_left(1);
        let session = &mut sessions[0];
        let replies = send(&mut session.con, &batch, seed);
        assert_eq!(replies.len(), batch.len());
        for (call, reply) in batch.iter().zip(&replies) {
            let mut answered = |call: &Call, reply: &Value| {
                if !matches!(reply, Value::ServerError(_)) {
                    mix.insert(String::from_utf8_lossy(&call[0]).to_ascii_uppercase());
                }
            };
            if let Err(why) = session.check(call, reply, &mut answered) {
                panic!("seed {seed}: {why}\n{}\n{reply:?}", show(call));
            }
            fuzzer.learn(call, reply);
            let restore = call[0] == b"RESTORE" || call[0] == b"RL.E";
            restored += u64::from(restore && *reply == Value::Okay);
            rejected += u64::from(restore && is_error(reply, "Bad data format"));
            errors += u64::from(matches!(reply, Value::ServerError(_)));
            admitted += u64::from(call[0].starts_with(b"RL.") && matches!(reply, Value::Array(_)));
        }
        sent += batch.len() as u64;
        assert!(server.is_running() && replica.is_running());
    }
    // Else the generator has lost its way.
    let missing: Vec<&str> = MIX.split(' ').filter(|name| !mix.contains(*name)).collect();
    assert!(missing.is_empty(), "never answered: {missing:?}");
    assert!(admitted > sent / 10, "{admitted} of {sent} commands answered by the module");
    assert!(errors > sent / 100, "{errors} errors in {sent} commands");
    // Forged payloads with a right checksum reach the module, and some of them are good.
    assert!(restored > 0 && rejected > 0, "{restored} restored, {rejected} rejected");
    let mut con = server.connection();
    let _ = try_cmd!(con, "CONFIG", "SET", "maxmemory", 0);
    // Keys that have just ended are deleted on the replica a moment later.
    replica.wait_in_sync(&server);
    eventually(SOON, || server.digest_all() == replica.digest_all());
    workload::assert_no_propagation_error(&server);
    workload::assert_no_propagation_error(&replica);
    // Whatever they hold can be saved and loaded, and freed.
    cmd!(con, "DEBUG", "RELOAD");
    cmd!(con, "FLUSHALL");
}
