//! What a primary tells its replicas, and writes to its AOF, exactly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
mod workload;
use support::*;
use workload::{START_US, say, try_call};

use redis_limiter_core::codec::{Decoded, decode};
use redis_limiter_core::limit::{Identity, Which};
use redis_limiter_core::state::Delta;
use std::collections::BTreeMap;

/// What an effect changes: `bucket`, `log:audit`, `-quota` (forgotten).
fn changed(identity: &Identity, delta: &Delta) -> String {
    let kind = match identity.which {
        Which::Bucket => "bucket".to_owned(),
        Which::Window { mode, .. } => format!("{mode:?}").to_lowercase(),
        Which::Quota(_) => "quota".to_owned(),
        Which::Lease => "lease".to_owned(),
    };
    let name = identity.name.map_or(String::new(), |name| format!(":{}", escape(name)));
    format!("{}{kind}{name}", if *delta == Delta::Forget { "-" } else { "" })
}

/// The stream as lines: `RL.E k bucket quota`. Each effect must decode and carry an instant of just
/// now; the last one of a key carries the expiry that the key has.
#[track_caller]
fn stream(tap: &mut ReplicaTap, server: &Server) -> Vec<String> {
    let now_us = server.time_us();
    let effects = tap.commands(server);
    let mut expiries = BTreeMap::new();
    let mut lines = Vec::new();
    for effect in &effects {
        let [name, key, blob] = &effect[..] else {
            lines.push(text(std::slice::from_ref(effect)));
            continue;
        };
        let Ok(Decoded::Effect { now_us: at_us, expire_ms, changes }) = decode(blob) else {
            panic!("not an effect: {}", escape(blob))
        };
        assert_eq!(name, b"RL.E");
        assert!((at_us..at_us + 5_000_000).contains(&now_us), "{at_us} is not near {now_us}");
        expiries.insert(key, i64::try_from(expire_ms).unwrap());
        let changes: Vec<String> = changes.iter().map(|(i, d)| changed(i, d)).collect();
        lines.push(vec![format!("RL.E {} {}", escape(key), changes.join(" "))]);
    }
    for (key, expire_ms) in expiries {
        let stored_ms = server.pexpiretime(&key[..]);
        // Nothing is left of a key: it is deleted, and the effect carries no expiry.
        assert_eq!(stored_ms, if expire_ms == 0 { -2 } else { expire_ms }, "{}", escape(key));
    }
    lines.concat()
}

/// Calls, one after the other on one key, and the effects of each.
const STREAMS: &[(&str, &[&str])] = &[
    ("RL.BUCKET k 1/1h 2", &["RL.E k bucket"]),
    ("RL.BUCKET k 1/1h 2 FORCE", &["RL.E k bucket"]),
    ("RL.BUCKET k 1/1h 2", &[]),
    ("RL.BUCKET k 1/1h 2 UPTO", &[]),
    ("RL.BUCKET k 1/1h 0", &[]),
    ("RL.BUCKET k 1/1h 2 0", &[]),
    ("RL.BUCKET k 1/1h 9 2 MAXWAIT 1s AS wait", &["RL.E k bucket:wait"]),
    ("CL.THROTTLE k 9 1 3600 2", &["RL.E k bucket"]),
    ("CL.THROTTLE k 9 1 3600 0", &[]),
    ("CL.THROTTLE k 0 1 3600", &[]),
    ("CL.THROTTLE k 9 1 3600 -1", &["RL.E k bucket"]),
    ("RL.WINDOW k 1h 2 2", &["RL.E k sliding"]),
    ("RL.WINDOW k 1h 2", &[]),
    ("RL.WINDOW k 1h 2 FIXED", &["RL.E k fixed"]),
    ("RL.WINDOW k 1h 9 5 UPTO FIXED LEAVE 1", &["RL.E k fixed"]),
    ("RL.WINDOW k 1h 2 LOG AS audit", &["RL.E k log:audit"]),
    ("RL.WINDOW k 1h 2 2 LOG AS audit", &[]),
    ("RL.QUOTA k month 5 4 TZ Asia/Kolkata", &["RL.E k quota"]),
    ("RL.QUOTA k month 5 2", &[]),
    ("RL.ACQUIRE k 3 1h 2 ID a", &["RL.E k lease"]),
    ("RL.ACQUIRE k 3 2h 2 ID a", &["RL.E k lease"]),
    ("RL.ACQUIRE k 3 1h 2 ID a NX", &[]),
    ("RL.ACQUIRE k 3 1h 2 ID b", &[]),
    ("RL.ACQUIRE k 9 1h AS free", &["RL.E k lease:free"]),
    ("RL.RENEW k a 3h", &["RL.E k lease"]),
    ("RL.RENEW k nobody 3h", &[]),
    ("RL.RELEASE k nobody", &[]),
    ("RL.RELEASE k a", &["RL.E k lease"]),
    ("RL.RELEASE k a", &[]),
    (
        "RL.TAKE k COST 2 BUCKET 1/1h 9 WINDOW 1h 9 QUOTA day 9 LEASE 9 1h ID x",
        &["RL.E k bucket sliding quota lease"],
    ),
    ("RL.TAKE k BUCKET 1/1h 9 COST 0 QUOTA day 9", &["RL.E k quota"]),
    ("RL.TAKE k BUCKET 1/1h 9 QUOTA day 1", &[]),
    ("RL.TAKE k FORCE BUCKET 1/1h 9 QUOTA day 1", &["RL.E k bucket quota"]),
    ("RL.PEEK k DETAIL BUCKET 1/1h 9 WINDOW 1h 9 LEASE 9 1h", &[]),
    ("RL.INFO k", &[]),
    ("RL.REFUND k WINDOW 1h 9 QUOTA day 9", &["RL.E k sliding quota"]),
    ("RL.REFUND k AGE 1d WINDOW 1h 9", &[]),
    ("RL.REFUND k BUCKET 1/1h 9 AS unused", &[]),
    ("RL.RESET k QUOTA week", &[]),
    ("RL.RESET k QUOTA month", &["RL.E k -quota"]),
    ("RL.REFUND none BUCKET 1/1h 9", &[]),
    ("RL.RELEASE none a", &[]),
    ("RL.RESET none LEASE", &[]),
    ("RL.BUCKET none 1 0", &[]),
    (
        "RL.MTAKE KEY k BUCKET 1/1h 9 KEY k2 QUOTA year 9",
        &["MULTI", "RL.E k bucket", "RL.E k2 quota", "EXEC"],
    ),
    ("RL.MTAKE KEY k BUCKET 1/1h 9 COST 0 KEY k2 QUOTA year 9", &["RL.E k2 quota"]),
    ("RL.MTAKE KEY k BUCKET 1/1h 9 KEY k2 QUOTA year 1", &[]),
    ("RL.MPEEK KEY k BUCKET 1/1h 9 KEY k2 QUOTA year 1", &[]),
    (
        "RL.MREFUND KEY k BUCKET 1/1h 9 KEY k2 QUOTA year 1",
        &["MULTI", "RL.E k bucket", "RL.E k2 quota", "EXEC"],
    ),
    ("RL.MREFUND KEY none BUCKET 1/1h 9 KEY k2 QUOTA year 1", &["RL.E k2 quota"]),
];

#[test]
fn each_command_sends_exactly_its_effects() {
    let server = Server::start();
    let mut con = server.connection();
    let mut tap = ReplicaTap::attach(&server);
    for (call, effects) in STREAMS {
        say(&mut con, call);
        assert_eq!(stream(&mut tap, &server), *effects, "{call}");
    }
    assert_eq!(int(&cmd!(con, "EXISTS", "k2", "none")), 0);
}

#[test]
fn a_key_that_is_used_no_more_is_deleted_everywhere() {
    let server = Server::start();
    let replica = server.replica();
    let mut con = server.connection();
    for undo in ["RL.REFUND k BUCKET 1/1h 9", "RL.RESET k BUCKET"] {
        say(&mut con, "RL.BUCKET k 1/1h 9");
        say(&mut con, undo);
        assert_eq!(int(&cmd!(con, "EXISTS", "k")), 0, "{undo}");
        replica.wait_in_sync(&server);
        assert_eq!(int(&cmd!(replica.connection(), "DBSIZE")), 0, "{undo}");
    }
    say(&mut con, "RL.ACQUIRE k 9 1h ID a");
    say(&mut con, "RL.RELEASE k a");
    replica.wait_in_sync(&server);
    assert_eq!(int(&cmd!(replica.connection(), "DBSIZE")), 0);
}

#[test]
fn errors_send_nothing() {
    let server = Server::start();
    let mut con = server.connection();
    cmd!(con, "SET", "string", 1);
    let mut tap = ReplicaTap::attach(&server);
    for call in
        ["RL.BUCKET k nan 2", "RL.BUCKET string 1 2", "RL.TAKE k", "RL.E k x", "RL.INFO string"]
    {
        let words: Vec<Vec<u8>> = call.split(' ').map(|w| w.as_bytes().to_vec()).collect();
        assert!(try_call(&mut con, &words).is_err(), "{call}");
    }
    say(&mut con, "RL.BUCKET k 9007199254740991/366d 9007199254740991 9007199254740991");
    assert_eq!(stream(&mut tap, &server), ["RL.E k bucket"]);
    assert!(
        err!(con, "RL.BUCKET", "k", "1/366d", 1, 9_007_199_254_740_991_u64, "FORCE")
            .starts_with("ERR")
    );
    assert!(stream(&mut tap, &server).is_empty());
}

/// What redis-cell stores: a string with its end in nanoseconds, which is also its expiry.
#[test]
fn a_key_of_redis_cell_is_taken_over_on_replicas_too() {
    let server = Server::start();
    let replica = server.replica();
    let mut con = server.connection();
    let end_ms = server.time_us() / 1000 + 60_000;
    cmd!(con, "SET", "k", end_ms * 1_000_000, "PXAT", end_ms);
    let mut tap = ReplicaTap::attach(&server);
    assert_eq!(ints(&say(&mut con, "CL.THROTTLE k 0 1 60"))[0], 1);
    assert!(stream(&mut tap, &server).is_empty());
    assert_eq!(ints(&say(&mut con, "CL.THROTTLE k 9 1 60"))[0], 0);
    assert_eq!(stream(&mut tap, &server), ["RL.E k bucket"]);
    replica.wait_in_sync(&server);
    replica.assert_same(&server, "k");
    assert_eq!(plain(&cmd!(replica.connection(), "TYPE", "k")), "rl-limits");
}

#[test]
fn transactions_and_scripts_send_their_effects_as_one() {
    let server = Server::start();
    let mut con = server.connection();
    let mut tap = ReplicaTap::attach(&server);
    let both = ["MULTI", "RL.E k bucket", "RL.E k quota", "EXEC"];

    say(&mut con, "MULTI");
    for call in
        ["RL.BUCKET k 1/1h 9", "RL.BUCKET k 1/1h 0", "RL.PEEK k QUOTA day 9", "RL.QUOTA k day 9"]
    {
        say(&mut con, call);
    }
    say(&mut con, "EXEC");
    assert_eq!(stream(&mut tap, &server), both);

    let script = "redis.call('RL.BUCKET', KEYS[1], '1/1h', 9) \
                  redis.call('RL.BUCKET', KEYS[1], '1/1h', 0) \
                  return redis.call('RL.QUOTA', KEYS[1], 'day', 9)";
    assert_eq!(ints(&cmd!(con, "EVAL", script, 1, "k"))[0], 1);
    assert_eq!(stream(&mut tap, &server), both);

    let one = "return redis.call('RL.BUCKET', KEYS[1], '1/1h', 9)";
    cmd!(con, "EVAL", one, 1, "k");
    assert_eq!(stream(&mut tap, &server), ["RL.E k bucket"]);
    let refused = "return redis.call('RL.BUCKET', KEYS[1], '1/1h', 0)";
    cmd!(con, "EVAL", refused, 1, "k");
    let peek = "return redis.call('RL.PEEK', KEYS[1], 'BUCKET', '1/1h', 9)";
    cmd!(con, "EVAL_RO", peek, 1, "k");
    assert!(stream(&mut tap, &server).is_empty());

    let library = format!(
        "#!lua name=limits\n\
         redis.register_function('both', function(KEYS) {script} end)\n\
         redis.register_function{{function_name='peek', flags={{'no-writes'}}, \
         callback=function(KEYS) {peek} end}}"
    );
    cmd!(con, "FUNCTION", "LOAD", library);
    tap.commands(&server);
    cmd!(con, "FCALL", "both", 1, "k");
    assert_eq!(stream(&mut tap, &server), both);
    cmd!(con, "FCALL_RO", "peek", 1, "k");
    assert!(stream(&mut tap, &server).is_empty());

    let keys = "redis.call('RL.MTAKE', 'KEY', KEYS[1], 'BUCKET', '1/1h', 99, 'KEY', KEYS[2], \
                'BUCKET', '1/1h', 9)";
    cmd!(con, "EVAL", keys, 2, "k", "k2");
    let two = ["MULTI", "RL.E k bucket", "RL.E k2 bucket", "EXEC"];
    assert_eq!(stream(&mut tap, &server), two);
}

#[test]
fn a_refused_call_on_an_expired_key_deletes_it_as_get_does() {
    needs_clock!();
    let clock = Clock::new(START_US);
    let server = Server::builder().clock(&clock).start();
    let mut con = server.connection();
    cmd!(con, "DEBUG", "SET-ACTIVE-EXPIRE", 0);
    let mut tap = ReplicaTap::attach(&server);
    say(&mut con, "RL.BUCKET k 1 1");
    tap.commands(&server);
    clock.advance_ms(86_400_000);
    say(&mut con, "RL.BUCKET k 1 0");
    let seen = stream(&mut tap, &server);
    assert!(seen == ["DEL k"] || seen == ["UNLINK k"], "{seen:?}");
}

#[test]
fn the_clock_rule_is_written_once_also_by_a_refusal() {
    needs_clock!();
    let clock = Clock::new(START_US);
    let server = Server::builder().clock(&clock).start();
    let mut con = server.connection();
    let mut tap = ReplicaTap::attach(&server);
    say(&mut con, "RL.TAKE k BUCKET 1/1h 1 WINDOW 1h 1 WINDOW 1h 1 LOG LEASE 1 1h ID a");
    tap.commands(&server);
    clock.step_us(-60_000_000);
    say(&mut con, "RL.PEEK k BUCKET 1/1h 1");
    say(&mut con, "RL.INFO k");
    assert!(stream(&mut tap, &server).is_empty());
    let expected = [
        ("RL.BUCKET k 1/1h 1", "RL.E k bucket"),
        ("RL.WINDOW k 1h 1", "RL.E k sliding"),
        ("RL.WINDOW k 1h 1 LOG", "RL.E k log"),
        ("RL.ACQUIRE k 1 1h ID b", "RL.E k lease"),
    ];
    for (call, effect) in expected {
        assert_eq!(five(&say(&mut con, call))[0], 0);
        assert_eq!(stream(&mut tap, &server), [effect], "{call}");
        say(&mut con, call);
        assert!(stream(&mut tap, &server).is_empty(), "{call} again");
    }
}
