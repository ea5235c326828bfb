//! Sentinels fail over from a dead primary, and every limit goes on where it stood.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
mod workload;
use support::*;
use workload::{START_US, Snapshot, Workload, assert_no_propagation_error, say, show, try_call};

use redis::{Connection, Value};
use std::time::Duration;

/// How long sentinels may take; they pause at random when they elect one of them.
const FAILOVER: Duration = Duration::from_secs(30);

/// Limits of 10 of which 7 are used, one of every kind and mode; they outlast the test.
const HELD: [&str; 6] = [
    "BUCKET 1/1h 10",
    "WINDOW 2h 10",
    "WINDOW 2h 10 FIXED",
    "WINDOW 2h 10 LOG",
    "QUOTA year 10",
    "LEASE 10 2h",
];

/// A call that charges all of them.
fn take(cost: u32, id: &str) -> String {
    format!("RL.TAKE k COST {cost} DETAIL {} COST {cost} ID {id}", HELD.join(" "))
}

fn node(configure: impl FnOnce(Builder) -> Builder) -> Server {
    configure(Server::builder().config("propagation-error-behavior panic")).start()
}

/// A sentinel that watches `primary` under the name `limits`. One that finds it down may fail over
/// when most sentinels vote for it.
fn sentinel(primary: &Server) -> Server {
    let sentinel = Server::builder()
        .without_module()
        .argument("--sentinel")
        .config(format!("sentinel monitor limits 127.0.0.1 {} 1", primary.port()))
        .config(format!("sentinel failover-timeout limits {}", 10_000 * patience()))
        .start();
    let mut con = sentinel.connection();
    // Else they look at the servers every ten seconds only, and talk to each other every two.
    cmd!(con, "SENTINEL", "DEBUG", "INFO-PERIOD", 500, "PUBLISH-PERIOD", 200);
    down_after(&sentinel, CALM_MS);
    sentinel
}

/// Before and after the one failover that is meant, a machine that stalls must not cause another.
const CALM_MS: u32 = 120_000;

/// After how many ms without an answer a sentinel holds a server for dead.
fn down_after(sentinel: &Server, ms: u32) {
    let mut con = sentinel.connection();
    cmd!(con, "SENTINEL", "SET", "limits", "down-after-milliseconds", ms);
}

/// The port of the server that a sentinel takes for the primary.
fn primary_port(sentinel: &Server) -> u16 {
    let reply = cmd!(sentinel.connection(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "limits");
    let Value::Array(address) = &reply else { panic!("no address: {reply:?}") };
    plain(&address[1]).parse().unwrap()
}

/// Waits until a sentinel knows all `replicas` and all `others` of its kind.
fn wait_until_ready(sentinel: &Server, replicas: usize, others: usize) {
    let mut con = sentinel.connection();
    let mut known = |what: &str| match cmd!(con, "SENTINEL", what, "limits") {
        Value::Array(known) => known.len(),
        other => panic!("not an array: {other:?}"),
    };
    eventually(FAILOVER, || known("REPLICAS") == replicas && known("SENTINELS") == others);
    eventually(FAILOVER, || try_cmd!(con, "SENTINEL", "CKQUORUM", "limits").is_ok());
}

/// Whether a sentinel sees that a server follows another. From then on it does not reconfigure the
/// server, which would close the connections of the test.
fn sees_following(sentinel: &Server, server: &Server, primary: &Server) -> bool {
    let reply = cmd!(sentinel.connection(), "SENTINEL", "REPLICAS", "limits");
    let Value::Array(replicas) = &reply else { panic!("not an array: {reply:?}") };
    replicas.iter().any(|replica| {
        let is = |name, value: &str| field(replica, name).is_some_and(|v| plain(&v) == value);
        is("port", &server.port().to_string())
            && is("role-reported", "slave")
            && is("master-port", &primary.port().to_string())
    })
}

/// Between which instants (Unix µs) something happens that a reply promised in `wait_ms`.
type Instants = (i64, i64);

/// What PEEK says of each limit to a cost that does not fit: allowed, limit and remaining; when it
/// would fit, and when nothing is used any more.
fn peek(server: &Server) -> Vec<([i64; 3], Instants, Instants)> {
    let mut con = server.connection();
    let mut one = |layer: &&str| {
        let (since_us, reply, until_us) = (
            server.time_us(),
            five(&say(&mut con, &format!("RL.PEEK k {layer} COST 4"))),
            server.time_us(),
        );
        let instant = |us: u64, ms: i64| i64::try_from(us).unwrap() + ms * 1000;
        // Waits are rounded up to whole ms, and a server's own clock may stand a little behind.
        let instants = |ms| (instant(since_us, ms) - 3_000, instant(until_us, ms));
        let [allowed, limit, remaining, retry_ms, reset_ms] = reply;
        ([allowed, limit, remaining], instants(retry_ms), instants(reset_ms))
    };
    HELD.iter().map(&mut one).collect()
}

#[track_caller]
fn assert_peek(server: &Server, before: &[([i64; 3], Instants, Instants)]) {
    let overlap = |a: Instants, b: Instants| a.0 <= b.1 && b.0 <= a.1;
    for ((layer, now), before) in HELD.iter().zip(peek(server)).zip(before) {
        assert_eq!(now.0, before.0, "{layer}");
        assert!(overlap(now.1, before.1), "{layer}: retry at {:?}, was {:?}", now.1, before.1);
        assert!(overlap(now.2, before.2), "{layer}: reset at {:?}, was {:?}", now.2, before.2);
    }
}

/// The keys of the load, and those that the test charges itself.
struct Keys(Vec<Vec<u8>>);

impl Keys {
    /// Every value and every expiry that a server holds, exactly.
    #[track_caller]
    fn held_by(&self, server: &Server) -> Snapshot {
        Snapshot::take(server, &self.0, false)
    }
}

/// Random calls of every command; none may be an error.
fn play(con: &mut Connection, load: &mut Workload, count: u32) {
    for _ in 0..count {
        let call = load.call();
        if let Err(e) = try_call(con, &call) {
            panic!("{}: {}", show(&call), error_text(&e));
        }
    }
}

/// No unit is admitted a second time, and none is lost.
fn use_up(con: &mut Connection) {
    let admitted = say(con, &take(3, "b"));
    assert_eq!(five(&admitted)[..3], [1, 10, 0]);
    let Value::Array(layers) = say(con, &take(1, "c")) else { panic!("no array") };
    let Value::Array(layers) = &layers[6] else { panic!("no details") };
    for (layer, reply) in HELD.iter().zip(layers) {
        assert_eq!(five(reply)[..3], [0, 10, 0], "{layer}");
    }
    assert_eq!(int(&say(con, "RL.RENEW k a 3h")), 1);
    assert_eq!(int(&say(con, "RL.RELEASE k b")), 1);
}

#[test]
fn sentinels_promote_a_replica_that_goes_on_where_the_primary_stopped() {
    let mut primary = node(|b| b);
    // The other one is promoted if this one can be.
    let replica = node(|b| b.replica_of(&primary).config("replica-priority 10"));
    let other = node(|b| b.replica_of(&primary).config("replica-priority 200"));
    let sentinels = [(); 3].map(|()| sentinel(&primary));
    let mut load = Workload::new(160);
    let mut con = primary.connection();
    play(&mut con, &mut load, 1200);
    assert_eq!(five(&say(&mut con, &take(7, "a")))[..3], [1, 10, 3]);
    let keys = Keys([load.keys.clone(), vec![b"k".to_vec()]].concat());
    for replica in [&replica, &other] {
        replica.wait_in_sync(&primary);
    }
    let (before, peeked) = (keys.held_by(&replica), peek(&replica));
    assert!(peeked.iter().all(|(verdict, ..)| *verdict == [0, 10, 3]), "{peeked:?}");
    assert_eq!(before, keys.held_by(&primary));
    sentinels.iter().for_each(|sentinel| wait_until_ready(sentinel, 2, 2));
    assert!(sentinels.iter().all(|sentinel| primary_port(sentinel) == primary.port()));

    // One sees it first and asks the others for their votes. If all did, they might vote for
    // themselves, and would try again only after twice the failover timeout.
    down_after(&sentinels[0], 2_000 * patience());
    primary.kill9();
    eventually(FAILOVER, || sentinels.iter().all(|s| primary_port(s) == replica.port()));
    down_after(&sentinels[0], CALM_MS);
    assert_eq!(replica.info("role").as_deref(), Some("master"));
    assert_eq!(keys.held_by(&replica), before);
    assert_peek(&replica, &peeked);

    // Calls go on, and the other replica follows.
    let mut con = replica.connection();
    use_up(&mut con);
    play(&mut con, &mut load, 300);
    let follows = |server: &Server| {
        eventually(FAILOVER, || sentinels.iter().all(|s| sees_following(s, server, &replica)));
        server.wait_in_sync(&replica);
        assert_eq!(keys.held_by(server), keys.held_by(&replica));
    };
    follows(&other);

    // The old primary comes back empty, and the sentinels make it a replica.
    primary.start_again();
    follows(&primary);
    let error = err!(primary.connection(), "RL.BUCKET", "k", "1/1h", 10);
    assert!(error.starts_with("READONLY"), "{error}");
    [&primary, &replica, &other].into_iter().for_each(assert_no_propagation_error);
}

/// The same while the clock of the new primary is `ahead_ms` ahead of the old one's. Both stand still.
fn promotes_a_replica_whose_clock_is_off(ahead_ms: i64) {
    let (clock, other) = (Clock::new(START_US), Clock::new(START_US));
    other.step_us(ahead_ms * 1000);
    let mut primary = node(|b| b.clock(&clock));
    let replica = node(|b| b.clock(&other).replica_of(&primary));
    let sentinel = sentinel(&primary);
    let mut con = primary.connection();
    assert_eq!(five(&say(&mut con, &take(7, "a")))[..3], [1, 10, 3]);
    replica.wait_in_sync(&primary);
    let keys = Keys(vec![b"k".to_vec()]);
    let before = keys.held_by(&replica);
    assert_eq!(before, keys.held_by(&primary));
    let peek = |con: &mut Connection| {
        HELD.map(|layer| five(&say(con, &format!("RL.PEEK k {layer} COST 4"))))
    };
    let peeked = peek(&mut con);
    wait_until_ready(&sentinel, 1, 0);

    down_after(&sentinel, 2_000 * patience());
    primary.kill9();
    eventually(FAILOVER, || primary_port(&sentinel) == replica.port());
    down_after(&sentinel, CALM_MS);
    assert_eq!(keys.held_by(&replica), before);
    let mut con = replica.connection();
    for ((layer, was), is) in HELD.iter().zip(peeked).zip(peek(&mut con)) {
        assert_eq!((is[0], is[1], is[2]), (0, 10, 3), "{layer}");
        assert_eq!(was[..3], is[..3], "{layer}");
        // A quota ends when it ends. All else ends by the new clock if that is ahead, and moves with
        // it if it is behind: a sliding window into the sub-window of now, whose rest is waited for.
        let moves = ahead_ms < 0 && !layer.starts_with("QUOTA");
        let shift_ms = if moves { 0 } else { -ahead_ms };
        let grid_ms = if moves && *layer == "WINDOW 2h 10" { 7_200_000 / 16 } else { 0 };
        for (was_ms, is_ms) in [(was[3], is[3]), (was[4], is[4])] {
            let due_ms = was_ms + shift_ms;
            assert!(is_ms.abs_diff(due_ms) <= grid_ms, "{layer}: {is:?}, was {was:?}");
            assert!(grid_ms == 0 || is_ms >= 7_200_000, "{layer}: {is:?} is less than its length");
        }
    }
    use_up(&mut con);
    assert_no_propagation_error(&replica);
}

#[test]
fn sentinels_promote_a_replica_whose_clock_is_ahead() {
    needs_clock!();
    promotes_a_replica_whose_clock_is_off(600_000);
}

#[test]
fn sentinels_promote_a_replica_whose_clock_is_behind() {
    needs_clock!();
    promotes_a_replica_whose_clock_is_off(-600_000);
}
