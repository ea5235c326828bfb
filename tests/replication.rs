//! What a primary tells its replicas, exactly; and that they hold the same, come what may.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;
mod workload;
use support::*;
use workload::{Run, START_US, assert_no_propagation_error, say, try_call};

use redis::{Connection, Value};
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

/// Random load on a primary, and replicas that must hold the same.
fn replicated(seed: u64, config: &[&str]) -> (Run, Server) {
    let lines = |b: Builder| {
        let b = b.config("propagation-error-behavior panic");
        config.iter().fold(b, |b, line| b.config(*line))
    };
    let run = Run::start(seed, lines);
    let replica = run.another(|b| lines(b).replica_of(&run.server));
    replica.wait_in_sync(&run.server);
    (run, replica)
}

#[track_caller]
fn assert_equal(run: &Run, replica: &Server) {
    replica.wait_in_sync(&run.server);
    assert_eq!(run.snapshot_of(replica), run.snapshot());
    assert_no_propagation_error(replica);
    assert_no_propagation_error(&run.server);
}

#[test]
fn a_replica_is_equal_after_random_load() {
    let (mut run, replica) = replicated(101, &[]);
    assert_equal(&run, &replica);
    for _ in 0..5 {
        run.play(400);
        assert_equal(&run, &replica);
    }
}

#[test]
fn replicas_attach_under_load_with_and_without_a_file() {
    let ways: [&[&str]; 3] = [
        &["repl-diskless-sync no"],
        &["repl-diskless-sync yes", "repl-diskless-load swapdb"],
        &["repl-diskless-sync yes", "repl-diskless-load disabled", "rdbcompression no"],
    ];
    for (seed, config) in (110..).zip(ways) {
        let lines = |b: Builder| config.iter().fold(b, |b, line| b.config(*line));
        let mut run = Run::start(seed, lines);
        let builder = lines(Server::builder()).replica_of(&run.server);
        let replica = workload::with_clock(builder, run.clock.as_ref()).start();
        run.play(500);
        assert_equal(&run, &replica);
        run.play(100);
        assert_equal(&run, &replica);
    }
}

#[test]
fn a_cut_link_is_mended_without_a_full_sync() {
    let (mut run, replica) = replicated(120, &[]);
    for _ in 0..3 {
        cmd!(replica.connection(), "CLIENT", "KILL", "TYPE", "master");
        run.play(100);
        assert_equal(&run, &replica);
    }
    assert_eq!(run.server.info("sync_full").as_deref(), Some("1"));
    assert_ne!(run.server.info("sync_partial_ok").as_deref(), Some("0"));
}

#[test]
fn a_paused_replica_catches_up() {
    let (mut run, replica) = replicated(130, &[]);
    let signal = |signal| {
        let pid = libc::pid_t::try_from(replica.pid()).unwrap();
        // SAFETY: kill has no memory effects; the server is a child of ours and not yet reaped.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    };
    signal(libc::SIGSTOP);
    run.play(1000);
    signal(libc::SIGCONT);
    assert_equal(&run, &replica);
}

#[test]
fn a_chain_of_replicas_is_equal() {
    let (mut run, middle) = replicated(140, &[]);
    let last = run.another(|b| b.replica_of(&middle));
    last.wait_in_sync(&middle);
    run.play(500);
    assert_equal(&run, &middle);
    last.wait_in_sync(&middle);
    assert_eq!(run.snapshot_of(&last), run.snapshot());
}

#[test]
fn replicas_answer_reads_and_refuse_writes() {
    let server = Server::start();
    let mut con = server.connection();
    say(&mut con, "RL.TAKE k COST 3 BUCKET 1/1h 10 QUOTA year 10 LEASE 3 1h ID a");
    let replica = server.replica();
    let mut there = replica.connection();
    for read in ["RL.PEEK k QUOTA year 10", "RL.MPEEK KEY k BUCKET 1/1h 10 KEY none LEASE 3 1h"] {
        assert_eq!(five(&say(&mut there, read))[..3], five(&say(&mut con, read))[..3]);
    }
    assert_eq!(say(&mut there, "RL.INFO k"), say(&mut con, "RL.INFO k"));
    let writes = [
        "RL.BUCKET k 1 1",
        "RL.WINDOW k 1h 1",
        "RL.QUOTA k day 1",
        "RL.ACQUIRE k 1 1h",
        "RL.RELEASE k a",
        "RL.RENEW k a 1h",
        "RL.TAKE k BUCKET 1 1",
        "RL.REFUND k BUCKET 1 1",
        "RL.MTAKE KEY k BUCKET 1 1",
        "RL.MREFUND KEY k BUCKET 1 1",
        "RL.RESET k LEASE",
        "RL.E k x",
    ];
    for write in writes {
        let words: Vec<Vec<u8>> = write.split(' ').map(|w| w.as_bytes().to_vec()).collect();
        let error = try_call(&mut there, &words).expect_err(write);
        assert!(error_text(&error).starts_with("READONLY"), "{write}: {}", error_text(&error));
    }
}

#[test]
fn a_promoted_replica_goes_on_where_the_primary_stopped() {
    let (run, replica) = replicated(150, &[]);
    assert_equal(&run, &replica);
    let before = run.snapshot();
    replica.promote();
    assert_eq!(run.snapshot_of(&replica), before);
    let mut promoted = Run { server: replica, clock: run.clock, load: run.load };
    promoted.play(300);
    assert_ne!(promoted.snapshot(), before);
}

/// Limits of 10 of which 7 are used, and which outlast the tests below.
const HELD: [&str; 6] = [
    "BUCKET 1/1h 10",
    "WINDOW 2h 10",
    "WINDOW 2h 10 FIXED",
    "WINDOW 2h 10 LOG",
    "QUOTA year 10",
    "LEASE 10 2h COST 7 ID a",
];

fn take_seven(con: &mut Connection) {
    say(con, &format!("RL.TAKE k COST 7 {}", HELD.join(" ")));
}

fn peek(con: &mut Connection, layer: &str, cost: u32) -> [i64; 5] {
    let layer = layer.replace(" COST 7 ID a", &format!(" COST {cost}"));
    five(&say(con, &format!("RL.PEEK k COST {cost} {layer}")))
}

/// A replica whose clock is `ahead_ms` ahead of its primary's, promoted.
fn promoted_with_clock(ahead_ms: i64) {
    needs_clock!();
    let (clock, other) = (Clock::new(START_US), Clock::new(START_US));
    other.step_us(ahead_ms * 1000);
    let server = Server::builder().clock(&clock).start();
    let replica = Server::builder().clock(&other).replica_of(&server).start();
    replica.wait_in_sync(&server);
    let (mut con, mut there) = (server.connection(), replica.connection());
    take_seven(&mut con);
    say(&mut con, "RL.BUCKET short 1 60 60");
    replica.wait_in_sync(&server);
    replica.assert_same(&server, "k");
    let before = HELD.map(|layer| peek(&mut con, layer, 4));
    replica.promote();
    replica.assert_same(&server, "k");
    for (layer, before) in HELD.iter().zip(before) {
        let after = peek(&mut there, layer, 4);
        assert_eq!(after[..3], before[..3], "{layer}");
        let quota = layer.starts_with("QUOTA");
        // Nobody waits longer than on the old primary, but for a quota's fixed end.
        let own = |ms: i64| if quota || ahead_ms > 0 { ms - ahead_ms } else { ms };
        // A sliding window that moves may end up to a sixteenth later: its grid does not move.
        let grid_ms = if *layer == "WINDOW 2h 10" { 2 * 3_600_000 / 16 } else { 0 };
        assert!(after[3] <= own(before[3]) + grid_ms, "{layer}: {after:?}, was {before:?}");
        assert!(after[4] <= own(before[4]) + grid_ms, "{layer}: {after:?}, was {before:?}");
    }
    // Behind: not admitted twice. Ahead: over on the new clock.
    let refilled = ahead_ms > 0;
    assert_eq!(five(&say(&mut there, "RL.BUCKET short 1 60"))[0], i64::from(refilled));
    for layer in &HELD[..5] {
        let (kind, rest) = layer.split_once(' ').unwrap();
        let mut words: Vec<&str> = rest.split(' ').collect();
        words.insert(2, "3");
        let take = |n: &str| format!("RL.{kind} k {}", words.join(" ").replacen(" 3", n, 1));
        assert_eq!(five(&say(&mut there, &take(" 3")))[0], 1, "{layer}");
        let refused = five(&say(&mut there, &take(" 1")));
        assert_eq!(refused[0], 0, "{layer}");
        let retry_ms = u64::try_from(refused[3]).unwrap();
        let now_us = other.now_us();
        other.advance_ms(retry_ms - 1);
        assert_eq!(five(&say(&mut there, &take(" 1")))[0], 0, "{layer} 1 ms early");
        other.advance_ms(1);
        assert_eq!(peek(&mut there, layer, 1)[0], 1, "{layer} in time");
        other.set_us(now_us);
    }
    assert_eq!(int(&say(&mut there, "RL.RELEASE k a")), 1);
}

#[test]
fn a_promoted_replica_whose_clock_is_behind() {
    promoted_with_clock(-600_000);
}

#[test]
fn a_promoted_replica_whose_clock_is_ahead() {
    promoted_with_clock(600_000);
}

#[test]
fn effects_on_several_keys_arrive_together() {
    let server = Server::start();
    let replica = server.replica();
    let call = "RL.MTAKE KEY a BUCKET 1/366d 100000 KEY b BUCKET 1/366d 100000";
    std::thread::scope(|scope| {
        let job = scope.spawn(|| {
            let mut con = server.connection();
            (0..500).for_each(|_| drop(say(&mut con, call)));
        });
        let mut there = replica.connection();
        let read = "RL.MPEEK DETAIL KEY a BUCKET 1/366d 100000 KEY b BUCKET 1/366d 100000";
        while !job.is_finished() {
            let Value::Array(reply) = say(&mut there, read) else { panic!("no array") };
            let Value::Array(details) = &reply[6] else { panic!("no details") };
            assert_eq!(ints(&details[0])[2], ints(&details[1])[2], "half a transaction");
        }
    });
    replica.wait_in_sync(&server);
    replica.assert_same(&server, "a");
}
