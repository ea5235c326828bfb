//! Keys that redis-cell has left: strings that hold an instant in nanoseconds.

use super::support::*;
use super::throttle;
use redis::Connection;

/// Writes what redis-cell stores when `left_ms` from now nothing is used any more; answers the text.
fn leave(server: &Server, con: &mut Connection, key: &str, left_ms: u64) -> String {
    let instant_ns = (server.time_us() + left_ms * 1_000) * 1_000 + 285;
    cmd!(con, "SET", key, instant_ns, "PX", left_ms);
    instant_ns.to_string()
}

#[test]
fn the_first_charge_takes_a_string_over_with_its_remaining_time() {
    let server = Server::start();
    let replica = server.replica();
    let mut tap = ReplicaTap::attach(&server);
    let mut con = server.connection();
    // Two of five units are in use, at one in 100 s.
    let text = leave(&server, &mut con, "k", 200_000);
    tap.commands(&server);
    for (call, reply) in [
        ("k 4 36 3600 0", [0, 5, 3, -1, 200]),
        ("k 4 36 3600 4", [1, 5, 3, 100, 200]),
        ("k 4 36 3600 6", [1, 5, 3, -1, 200]),
        ("k 0 36 3600 -1", [0, 1, 0, -1, 100]),
    ] {
        let is_string = plain(&cmd!(con, "GET", "k"));
        assert_eq!(is_string, text, "before {call}");
        assert_eq!(throttle(&mut con, call), reply, "{call}");
    }
    // The last one gave back.
    assert_eq!(plain(&cmd!(con, "TYPE", "k")), "rl-limits");
    assert_eq!(throttle(&mut con, "k 4 36 3600"), [0, 5, 3, -1, 200]);

    leave(&server, &mut con, "k", 200_000);
    tap.commands(&server);
    assert_eq!(throttle(&mut con, "k 4 36 3600"), [0, 5, 2, -1, 300]);
    let seen = tap.commands(&server);
    assert_eq!((seen.len(), &seen[0][0][..], &seen[0][1][..]), (1, &b"RL.E"[..], &b"k"[..]));
    assert_eq!(plain(&cmd!(con, "TYPE", "k")), "rl-limits");
    assert!((300_000..370_000).contains(&int(&cmd!(con, "PTTL", "k"))));
    assert_eq!(five(&cmd!(con, "RL.BUCKET", "k", "36/1h", 5))[..3], [1, 5, 1]);
    replica.wait_in_sync(&server);
    replica.assert_same(&server, "k");
}

#[test]
fn a_refusal_and_a_look_leave_the_string_as_it_is() {
    let server = Server::start();
    let mut con = server.connection();
    let text = leave(&server, &mut con, "k", 500_000);
    let expires = server.pexpiretime("k");
    let mut tap = ReplicaTap::attach(&server);
    cmd!(con, "WATCH", "k");
    assert_eq!(throttle(&mut con, "k 4 36 3600"), [1, 5, 0, 100, 500]);
    assert_eq!(throttle(&mut con, "k 4 36 3600 0"), [0, 5, 0, -1, 500]);
    assert_eq!(plain(&cmd!(con, "GET", "k")), text);
    assert_eq!(server.pexpiretime("k"), expires);
    assert!(tap.commands(&server).is_empty());
    cmd!(con, "MULTI");
    cmd!(con, "PING");
    assert_ne!(cmd!(con, "EXEC"), redis::Value::Nil);
}

#[test]
fn giving_all_back_removes_the_string_everywhere() {
    let server = Server::start();
    let replica = server.replica();
    let mut con = server.connection();
    leave(&server, &mut con, "k", 200_000);
    assert_eq!(throttle(&mut con, "k 4 36 3600 -7"), [0, 5, 5, -1, 0]);
    replica.wait_in_sync(&server);
    for server in [&server, &replica] {
        assert_eq!(int(&cmd!(server.connection(), "EXISTS", "k")), 0);
    }
}

#[test]
fn a_taken_over_key_survives_a_restart() {
    let mut server = Server::builder().aof().start();
    let mut con = server.connection();
    leave(&server, &mut con, "k", 200_000);
    throttle(&mut con, "k 4 36 3600");
    let before = (server.digest("k"), server.pexpiretime("k"));
    server.kill9();
    server.start_again();
    assert_eq!((server.digest("k"), server.pexpiretime("k")), before);
}

#[test]
fn the_last_moments_of_a_string() {
    needs_clock!();
    let clock = Clock::new(1_700_000_000_000_000);
    let server = Server::builder().clock(&clock).start();
    let mut con = server.connection();
    // Its expiry may lie a second after its instant: then nothing is used any more.
    cmd!(con, "SET", "k", 1_700_000_000_000_000_000_u64, "PXAT", 1_700_000_001_000_u64);
    clock.advance_ms(500);
    assert_eq!(throttle(&mut con, "k 0 1 10 0"), [0, 1, 1, -1, 0]);
    assert_eq!(throttle(&mut con, "k 0 1 10 -1"), [0, 1, 1, -1, 0]);
    assert_eq!(plain(&cmd!(con, "TYPE", "k")), "string");
    assert_eq!(throttle(&mut con, "k 0 1 10"), [0, 1, 0, -1, 10]);
    assert_eq!(plain(&cmd!(con, "TYPE", "k")), "rl-limits");
    assert_eq!(throttle(&mut con, "k 0 1 10"), [1, 1, 0, 10, 10]);
}

#[test]
fn every_other_value_is_of_the_wrong_type() {
    let server = Server::start();
    let mut con = server.connection();
    let left_ms = 3_600_000;
    let at_ms = server.time_us() / 1_000 + left_ms;
    let ns = at_ms * 1_000_000;
    let mut check = |what: &str| {
        let before = plain(&cmd!(con, "GET", "k"));
        for quantity in [0, 1, -1] {
            let error = err!(con, "CL.THROTTLE", "k", 4, 1, 60, quantity);
            assert!(error.starts_with("WRONGTYPE"), "{what}: {error}");
        }
        assert_eq!(plain(&cmd!(con, "GET", "k")), before, "{what}");
    };
    let mut set = server.connection();
    for text in ["", "x", "1", "-1", "1.5", "99999999999999999999"] {
        cmd!(set, "SET", "k", text, "PXAT", at_ms);
        check(text);
    }
    for text in [format!("+{ns}"), format!(" {ns}"), format!("{ns} "), format!("{at_ms}")] {
        cmd!(set, "SET", "k", &text, "PXAT", at_ms);
        check(&text);
    }
    cmd!(set, "SET", "k", ns);
    check("without expiry");
    for apart_ms in [-1_001_i64, 1_001] {
        cmd!(set, "SET", "k", ns, "PXAT", at_ms.checked_add_signed(apart_ms).unwrap());
        check("another expiry");
    }
    for apart_ms in [-1_000_i64, 1_000] {
        cmd!(set, "SET", "k", ns, "PXAT", at_ms.checked_add_signed(apart_ms).unwrap());
        assert_eq!(throttle(&mut set, "k 4 1 3600")[..3], [0, 5, 3]);
    }
    cmd!(set, "DEL", "k");
    cmd!(set, "RPUSH", "k", ns);
    cmd!(set, "PEXPIREAT", "k", at_ms);
    assert!(err!(set, "CL.THROTTLE", "k", 4, 1, 60).starts_with("WRONGTYPE"));
    // Only CL.THROTTLE knows these strings.
    cmd!(set, "SET", "k", ns, "PXAT", at_ms);
    assert!(err!(set, "RL.BUCKET", "k", 1, 5).starts_with("WRONGTYPE"));
}
