//! Replicas hold what their primary holds, come what may.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
mod workload;
use support::*;
use workload::{Run, START_US, assert_no_propagation_error, say, try_call};

use redis::{Connection, Value};

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
        // The snapshot rests after every key, so that the load is sure to meet it.
        let mut con = run.server.connection();
        cmd!(con, "CONFIG", "SET", "rdb-key-save-delay", 250_000 * patience());
        let builder = lines(Server::builder()).replica_of(&run.server);
        let replica = workload::with_clock(builder, run.clock.as_ref()).start();
        eventually(SOON, || run.server.info("rdb_bgsave_in_progress").as_deref() == Some("1"));
        let mut met = 0;
        while replica.info("master_link_status").as_deref() == Some("down") {
            run.play(10);
            met += 10;
        }
        assert!(met >= 20, "the full sync met {met} calls");
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
        "CL.THROTTLE k 1 1 1",
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
