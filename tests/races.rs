//! A hundred connections at once get exactly what there is, whatever the kind.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use support::*;

use redis::ConnectionLike as _;

const CONNECTIONS: usize = 100;

/// How many of the connections were admitted.
fn admitted(server: &Server, line: impl Fn(usize) -> String + Sync) -> i64 {
    parallel(server, CONNECTIONS, |con, index| con.five(&line(index))[0]).iter().sum()
}

#[test]
fn every_kind_admits_exactly_the_limit() {
    let server = Server::start();
    for line in [
        "RL.BUCKET b 1/1h 5",
        "RL.BUCKET b 1/1h 5 AS n",
        "RL.BUCKET m 1/1h 5 1 MAXWAIT 1ms",
        "RL.WINDOW w 1h 5",
        "RL.WINDOW w 1h 5 FIXED",
        "RL.WINDOW w 1h 5 LOG",
        "RL.QUOTA q year 5",
        "RL.ACQUIRE l 5 1h",
        "RL.TAKE t BUCKET 1/1h 7 WINDOW 1h 5 LOG QUOTA year 9",
        "RL.MTAKE KEY t1 BUCKET 1/1h 7 KEY t2 QUOTA year 5 WINDOW 1h 6",
    ] {
        assert_eq!(admitted(&server, |_| line.to_owned()), 5, "{line}");
        assert_eq!(server.connection().five(line)[0], 0, "{line}");
    }
    let limited =
        parallel(&server, CONNECTIONS, |con, _| ints(&con.ask("CL.THROTTLE c 4 1 3600"))[0]);
    assert_eq!(limited.iter().sum::<i64>(), 95);
    let mut con = server.connection();
    // Layers that still had room were charged once for each admission, and not for a refusal.
    assert_eq!(con.six("RL.PEEK t BUCKET 1/1h 7")[2], 2);
    assert_eq!(con.six("RL.PEEK t QUOTA year 9")[2], 4);
    assert_eq!(con.six("RL.PEEK t1 BUCKET 1/1h 7")[2], 2);
    assert_eq!(con.six("RL.PEEK t2 WINDOW 1h 6")[2], 1);
}

#[test]
fn leases_are_held_once() {
    let server = Server::start();
    assert_eq!(admitted(&server, |n| format!("RL.ACQUIRE k 5 1h ID id-{n}")), 5);
    // Five ids in twenty connections each: every attempt is admitted, and takes one slot.
    assert_eq!(admitted(&server, |n| format!("RL.ACQUIRE same 5 1h ID id-{}", n % 5)), 100);
    assert_eq!(server.connection().five("RL.ACQUIRE same 5 1h")[..3], [0, 5, 0]);
    // With NX only the first of each.
    assert_eq!(admitted(&server, |n| format!("RL.ACQUIRE nx 9 1h ID id-{} NX", n % 5)), 5);
    let released = parallel(&server, CONNECTIONS, |con, n| {
        con.number(&format!("RL.RELEASE same id-{}", n % 5))
    });
    assert_eq!(released.iter().sum::<i64>(), 5);
}

#[test]
fn upto_hands_out_every_unit_once() {
    let server = Server::start();
    assert_eq!(admitted(&server, |n| format!("RL.BUCKET b 1/1h 333 {} UPTO", 1 + n % 9)), 333);
    assert_eq!(admitted(&server, |_| "RL.QUOTA q year 333 7 UPTO".to_owned()), 333);
}

#[test]
fn maxwait_hands_out_distinct_slots() {
    let server = Server::start();
    let mut waits = parallel(&server, CONNECTIONS, |con, _| {
        let answer = con.five("RL.BUCKET k 1/10s 1 1 MAXWAIT 1h");
        assert_eq!(answer[0], 1);
        answer[3]
    });
    waits.sort_unstable();
    assert_eq!(waits[0], 0);
    for pair in waits.windows(2) {
        // Ten seconds apart, less what passed between the calls.
        let apart = pair[1] - pair[0];
        assert!((5_000..=10_000).contains(&apart), "{waits:?}");
    }
}

#[test]
fn force_and_refund_lose_nothing() {
    let server = Server::start();
    let take = "RL.TAKE k COST 3 FORCE BUCKET 1/366d 5 QUOTA year 5 WINDOW 1d 5 LOG WINDOW 1d 5";
    assert_eq!(admitted(&server, |_| take.to_owned()), 100);
    let info = plain(&server.connection().ask("RL.INFO k"));
    assert_eq!(info.matches("used, 300,").count(), 4, "{info}");
    parallel(&server, CONNECTIONS, |con, _| {
        con.ask("RL.REFUND k COST 3 BUCKET 1/366d 5 QUOTA year 5 WINDOW 1d 5 LOG WINDOW 1d 5");
    });
    assert_eq!(server.connection().number("EXISTS k"), 0);
}

/// Where the server reads and parses on threads of its own, it asks there for the keys of a call.
#[test]
fn threads_of_the_server_ask_for_keys() {
    let server = Server::builder().cluster().config("io-threads 4").start();
    let mut con = server.connection();
    // Valkey otherwise wakes its threads under more load only. Each version has its own setting.
    for setting in ["events-per-io-thread 0", "io-threads-always-active yes"] {
        let _ = con.try_ask(&format!("CONFIG SET {setting}"));
    }
    let admitted = parallel(&server, 20, |con, n| {
        let (mut pipe, mut count) = (redis::Pipeline::new(), 0);
        for i in 0..100 {
            for call in [
                "RL.MTAKE KEY {t}a BUCKET 1/1h 500 AS KEY KEY {t}b QUOTA year 9000".to_owned(),
                format!("RL.MPEEK KEY {{{i}}}a BUCKET 1 5 KEY {{{i}}}b LEASE 5 1h"),
                format!("RL.MREFUND{}", format!(" KEY {{{n}}}").repeat(i + 5)),
                "RL.MTAKE AS KEY COST KEY KEY".to_owned(),
            ] {
                let mut words = call.split(' ');
                let mut command = redis::cmd(words.next().unwrap());
                words.for_each(|word| _ = command.arg(word));
                pipe.add_command(command);
                count += 1;
            }
        }
        let replies = con.req_packed_commands(&pipe.get_packed_pipeline(), 0, count).unwrap();
        assert_eq!(replies.len(), count);
        let taken = replies.chunks(4).map(|replies| {
            assert!(matches!(replies[2], redis::Value::ServerError(_)), "{:?}", replies[2]);
            assert!(matches!(replies[3], redis::Value::ServerError(_)), "{:?}", replies[3]);
            assert_eq!(five(&replies[1])[0], 1);
            five(&replies[0])[0]
        });
        taken.sum::<i64>()
    });
    assert_eq!(admitted.iter().sum::<i64>(), 500);
    assert_eq!(con.six("RL.PEEK {t}b QUOTA year 9000")[2], 8500);
}
