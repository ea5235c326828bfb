//! A power cut in the middle of load: with `appendfsync always` nothing that was answered is forgotten.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
mod workload;
use support::*;
use workload::{Stop, assert_no_propagation_error, rewrite_aof, try_call};

use redis::{Connection, Value};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What was acknowledged on each of the limits that [`CALLS`] charge.
type Counts = Vec<AtomicU64>;

/// Limits that do not end while a test runs, and how RL.INFO shows them.
const CALLS: [(&str, &str); 7] = [
    ("RL.BUCKET b 1/366d 1000000", "bucket"),
    ("RL.WINDOW s 1h 1000000", "sliding"),
    ("RL.WINDOW f 1h 1000000 FIXED", "fixed"),
    ("RL.WINDOW l 1h 65536 LOG", "log"),
    ("RL.QUOTA q year 1000000", "quota"),
    ("RL.ACQUIRE a 65536 1h", "lease"),
    ("RL.MTAKE KEY m BUCKET 1/366d 1000000 KEY m2 QUOTA month 1000000", "bucket"),
];

/// Charges one limit after the other until the server is gone or `stop`; counts what was answered.
fn charge(con: &mut Connection, counts: &Counts, stop: &Stop) {
    let calls = CALLS.map(|(text, _)| text.split(' ').map(|w| w.as_bytes().to_vec()).collect());
    let calls: [Vec<Vec<u8>>; 7] = calls;
    while !stop.is_set() {
        for (call, count) in calls.iter().zip(counts) {
            match try_call(con, call) {
                Ok(reply) if five(&reply)[0] == 1 => count.fetch_add(1, Relaxed),
                Ok(reply) => panic!("refused: {reply:?}"),
                Err(e) if e.is_io_error() || e.is_connection_dropped() => return,
                Err(e) => panic!("{}", error_text(&e)),
            };
        }
    }
}

/// Units in use of each limit of [`CALLS`].
#[track_caller]
fn used(server: &Server) -> Vec<u64> {
    let mut con = server.connection();
    let used = |(call, _): (&str, &str)| {
        let words: Vec<&str> = call.split(' ').collect();
        let key = if words[1] == "KEY" { words[2] } else { words[1] };
        let Value::Array(limits) = cmd!(con, "RL.INFO", key) else { return 0 };
        let used = field(&limits[0], "used").or(field(&limits[0], "slots")).unwrap();
        u64::try_from(int(&used)).unwrap()
    };
    CALLS.map(used).to_vec()
}

/// Load on four connections, `act` in the middle of it, kill −9, restart: everything that was
/// answered is there, and at most what each connection was still waiting for besides.
fn forgets_nothing(builder: Builder, act: impl Fn(&Server)) {
    const CONNECTIONS: usize = 4;
    let mut server = builder.start();
    let counts: Counts = CALLS.map(|_| AtomicU64::new(0)).into();
    let stop = Stop::default();
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| server.connection()).collect();
    std::thread::scope(|scope| {
        let _stop = stop.guard();
        for con in &mut connections {
            scope.spawn(|| charge(con, &counts, &stop));
        }
        eventually(SOON, || counts[0].load(Relaxed) > 50);
        act(&server);
        let before = counts[0].load(Relaxed);
        eventually(SOON, || counts[0].load(Relaxed) > before + 50);
        server.kill9();
    });
    server.start_again();
    for ((used, count), (call, _)) in used(&server).into_iter().zip(&counts).zip(CALLS) {
        let answered = count.load(Relaxed);
        assert!(used >= answered, "{call}: {used} used, {answered} answered");
        assert!(used <= answered + CONNECTIONS as u64, "{call}: {used} used, {answered} answered");
    }
    assert_no_propagation_error(&server);
}

#[test]
fn kill_9_in_the_middle_of_load_forgets_nothing_answered() {
    forgets_nothing(Server::builder().aof(), |_| {});
}

#[test]
fn kill_9_after_a_rewrite_under_load_with_preamble() {
    forgets_nothing(Server::builder().aof().config("aof-use-rdb-preamble yes"), rewrite_aof);
}

#[test]
fn kill_9_after_a_rewrite_under_load_without_preamble() {
    let builder = Server::builder().aof().config("aof-use-rdb-preamble no");
    forgets_nothing(builder, |server| {
        rewrite_aof(server);
        rewrite_aof(server);
    });
}
