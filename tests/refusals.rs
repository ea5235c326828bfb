//! What a refusal, a look and an error do not do, and that a change does it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use redis::{Connection, Value};
use support::*;

/// Calls that change nothing once [`fill`] has run: refused, of cost 0, looking, or finding nothing.
const QUIET: &[&str] = &[
    "RL.BUCKET k 1/1h 5",
    "RL.BUCKET k 1/1h 5 9",
    "RL.BUCKET k 1/1h 5 3 UPTO",
    "RL.BUCKET k 1/1h 5 1 MAXWAIT 1h LEAVE 1",
    "RL.BUCKET k 1/1h 5 0",
    "RL.BUCKET k 1/1h 5 0 FORCE",
    "RL.BUCKET k 1/1h 0",
    "RL.WINDOW k 1d 5",
    "RL.WINDOW k 1d 5 0 FIXED",
    "RL.WINDOW k 1d 5 FIXED",
    "RL.WINDOW k 1d 5 LOG",
    "RL.QUOTA k year 5",
    "RL.QUOTA k year 5 0",
    "RL.QUOTA k year 5 TZ Asia/Tokyo",
    "RL.ACQUIRE k 2 1h",
    "RL.ACQUIRE k 2 1h ID other",
    "RL.ACQUIRE k 2 1h 2 ID held NX",
    "RL.ACQUIRE k 0 1h 2 ID held",
    "RL.ACQUIRE k 2 1h 0",
    "RL.RELEASE k stranger",
    "RL.RENEW k stranger 1h",
    "RL.TAKE k BUCKET 1/1h 5 QUOTA year 9",
    "RL.TAKE k QUOTA year 9 BUCKET 1/1h 5 WINDOW 1m 5",
    "RL.TAKE k COST 0 QUOTA year 9 BUCKET 1/1h 5",
    "RL.TAKE k LEASE 9 1h ID new BUCKET 1/1h 5",
    "RL.MTAKE KEY other BUCKET 1 5 KEY k BUCKET 1/1h 5",
    "RL.MTAKE COST 0 KEY other BUCKET 1 5 KEY k BUCKET 1/1h 5",
    "RL.PEEK k BUCKET 1/1h 5 QUOTA year 9 LEASE 5 1h",
    "RL.MPEEK KEY k BUCKET 1/1h 5 KEY other QUOTA year 9",
    "RL.REFUND k COST 0 BUCKET 1/1h 5",
    "RL.REFUND k COST 5 BUCKET 1/1h 5 AS other",
    "RL.REFUND k COST 5 AGE 366d QUOTA year 5",
    "RL.REFUND other BUCKET 1 5",
    "RL.MREFUND KEY other BUCKET 1 5 KEY k COST 5 BUCKET 1/1h 5 AS other",
    "RL.INFO k",
    "RL.INFO other",
    "RL.RESET k BUCKET AS other",
    "RL.RESET other LEASE",
    "RL.BUCKET other 1 0",
    "RL.TAKE other BUCKET 1 5 COST 6 QUOTA day 5",
    "CL.THROTTLE k 4 1 3600",
    "CL.THROTTLE k 4 1 3600 0",
    "CL.THROTTLE other 4 1 3600 6",
    "CL.THROTTLE other 4 1 3600 0",
    "RL.BUCKET k nan 5",
    "RL.BUCKET k 1/1h 5 1 FORCE UPTO",
    "RL.BUCKET k 1/1h 9007199254740991 9007199254740991 FORCE",
    "RL.ACQUIRE k 2 1h 1 ID held",
    "RL.E k x",
];

fn fill(con: &mut Connection) {
    con.ask(
        "RL.TAKE k COST 5 BUCKET 1/1h 5 WINDOW 1d 5 WINDOW 1d 5 FIXED WINDOW 1d 5 LOG QUOTA year 5 \
         LEASE 2 1h ID held COST 2",
    );
}

/// One call each that changes `k`; each starts from what [`fill`] stored.
const CHANGES: &[(&str, &str)] = &[
    ("rl.bucket", "RL.BUCKET k 1/1h 9"),
    ("rl.bucket", "RL.BUCKET k 1/1h 5 1 FORCE"),
    ("rl.bucket", "RL.BUCKET k 1/1h 9 9 UPTO AS more"),
    ("rl.window", "RL.WINDOW k 1d 9"),
    ("rl.window", "RL.WINDOW k 1d 9 FIXED"),
    ("rl.window", "RL.WINDOW k 1d 9 LOG"),
    ("rl.quota", "RL.QUOTA k year 9"),
    ("rl.acquire", "RL.ACQUIRE k 9 1h"),
    ("rl.acquire", "RL.ACQUIRE k 9 2h 2 ID held"),
    ("rl.release", "RL.RELEASE k held stranger"),
    ("rl.renew", "RL.RENEW k held 2h"),
    ("rl.take", "RL.TAKE k QUOTA year 9 WINDOW 1d 9"),
    ("rl.mtake", "RL.MTAKE KEY k QUOTA year 9"),
    ("rl.refund", "RL.REFUND k QUOTA year 9"),
    ("rl.mrefund", "RL.MREFUND KEY k WINDOW 1d 9"),
    ("rl.reset", "RL.RESET k LEASE"),
    ("cl.throttle", "CL.THROTTLE k 9 1 3600"),
    ("cl.throttle", "CL.THROTTLE k 9 1 3600 -1"),
];

#[test]
fn nothing_is_sent_or_stored() {
    let server = Server::builder().aof().start();
    let mut con = server.connection();
    fill(&mut con);
    let mut tap = ReplicaTap::attach(&server);
    tap.commands(&server);
    let state = |server: &Server| {
        (server.digest_all(), server.pexpiretime("k"), server.info("aof_current_size"))
    };
    // An RDB save point counts changes.
    let dirty = |server: &Server| server.info("rdb_changes_since_last_save");
    let (before, dirty_before) = (state(&server), dirty(&server));
    for line in QUIET {
        let _ = con.try_ask(line);
        assert_eq!(text(&tap.commands(&server)), Vec::<String>::new(), "{line}");
        assert_eq!(state(&server), before, "{line}");
        assert_eq!(dirty(&server), dirty_before, "{line}");
    }
    assert_eq!(con.number("EXISTS other"), 0);
    for (_, line) in CHANGES {
        con.ask("DEL k");
        fill(&mut con);
        tap.commands(&server);
        let before = state(&server);
        con.ask(line);
        let sent = text(&tap.commands(&server));
        assert!(sent.len() == 1 && sent[0].to_uppercase().starts_with("RL.E "), "{line}: {sent:?}");
        assert_ne!(state(&server), before, "{line}");
    }
}

#[test]
fn a_refused_flood_costs_no_byte_of_aof() {
    let server = Server::builder().aof().start();
    let mut con = server.connection();
    fill(&mut con);
    let before = (server.info("aof_current_size"), server.digest("k"));
    let mut pipe = redis::pipe();
    for _ in 0..20_000 {
        pipe.cmd("RL.BUCKET").arg("k").arg("1/1h").arg(5).ignore();
    }
    pipe.query::<()>(&mut con).unwrap();
    assert_eq!((server.info("aof_current_size"), server.digest("k")), before);
}

#[test]
fn watch_is_broken_by_changes_only() {
    let server = Server::start();
    let mut con = server.connection();
    let mut other = server.connection();
    let mut holds = |line: &str, con: &mut Connection| {
        con.ask("WATCH k other");
        let _ = other.try_ask(line);
        con.ask("MULTI");
        con.ask("PING");
        con.ask("EXEC") != Value::Nil
    };
    fill(&mut con);
    for line in QUIET {
        assert!(holds(line, &mut con), "{line} broke WATCH");
    }
    for (_, line) in CHANGES {
        con.ask("DEL k");
        fill(&mut con);
        assert!(!holds(line, &mut con), "{line} did not break WATCH");
    }
}

#[test]
fn client_caches_are_told_of_changes_only() {
    let server = Server::start();
    let mut con = server.connection();
    let mut cache = server.raw();
    cache.call(&[b"HELLO", b"3"]);
    cache.call(&[b"CLIENT", b"TRACKING", b"ON", b"BCAST"]);
    // What comes before the answer to PING are invalidations.
    let mut told = || {
        cache.send(&encode(&[b"PING"]));
        let mut messages = 0;
        while cache.reply() != b"+PONG\r\n" {
            messages += 1;
        }
        messages
    };
    fill(&mut con);
    told();
    for line in QUIET {
        let _ = con.try_ask(line);
        assert_eq!(told(), 0, "{line}");
    }
    for (_, line) in CHANGES {
        con.ask("DEL k");
        told();
        fill(&mut con);
        assert_eq!(told(), 1);
        con.ask(line);
        assert_eq!(told(), 1, "{line}");
    }
}

/// Who hears every event of a server.
struct Listener(Raw);

impl Listener {
    fn attach(server: &Server) -> Self {
        let mut raw = server.raw();
        raw.call(&[b"HELLO", b"3"]);
        raw.call(&[b"PSUBSCRIBE", b"__key*"]);
        Self(raw)
    }

    /// What has been raised since the last time: channel and message.
    fn events(&mut self) -> Vec<String> {
        self.0.send(&encode(&[b"PING"]));
        let mut seen = Vec::new();
        loop {
            let message = escape(&self.0.reply());
            if message == r"+PONG\r\n" {
                return seen;
            }
            let words = message.split(r"\r\n").filter(|word| !word.starts_with(['$', '>']));
            seen.push(words.skip(2).collect::<Vec<_>>().join(" ").trim().to_owned());
        }
    }
}

#[test]
fn events_are_raised_by_changes_only() {
    let server = Server::builder().config("notify-keyspace-events KEd").start();
    let mut con = server.connection();
    let mut listener = Listener::attach(&server);
    let mut events = || listener.events();
    let both =
        |name: &str| [format!("__keyspace@0__:k {name}"), format!("__keyevent@0__:{name} k")];
    fill(&mut con);
    assert_eq!(events(), both("rl.take"));
    for line in QUIET {
        let _ = con.try_ask(line);
        assert_eq!(events(), Vec::<String>::new(), "{line}");
    }
    for (name, line) in CHANGES {
        con.ask("DEL k");
        fill(&mut con);
        events();
        con.ask(line);
        assert_eq!(events(), both(name), "{line}");
    }
    // One event for each key that a call over several keys changes.
    con.ask("RL.MTAKE KEY a BUCKET 1/1h 5 KEY b BUCKET 1/1h 5 KEY c BUCKET 1/1h 5 COST 0");
    let seen = events();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen.iter().all(|event| event.ends_with(" rl.mtake") || event.contains(":rl.mtake ")));
}

#[test]
fn other_classes_hear_nothing() {
    // All but d, m (misses) and n (new keys): a charge is not a string, hash or generic event.
    let server = Server::builder().config("notify-keyspace-events KE$lshzxet").start();
    let mut con = server.connection();
    let mut listener = server.raw();
    listener.call(&[b"HELLO", b"3"]);
    listener.call(&[b"PSUBSCRIBE", b"__key*"]);
    fill(&mut con);
    for line in QUIET {
        let _ = con.try_ask(line);
    }
    listener.send(&encode(&[b"PING"]));
    assert_eq!(escape(&listener.reply()), r"+PONG\r\n");
}

/// What makes `k` (and `l`), the call that takes the last of it away, and its event.
const LAST: &[(&str, &str, &str)] = &[
    ("RL.BUCKET k 1/1h 5", "RL.REFUND k BUCKET 1/1h 5", "rl.refund"),
    ("RL.WINDOW k 1d 5 LOG", "RL.REFUND k COST 5 WINDOW 1d 5 LOG", "rl.refund"),
    ("RL.QUOTA k year 5", "RL.MREFUND KEY k QUOTA year 5", "rl.mrefund"),
    (
        "RL.MTAKE KEY k WINDOW 1d 5 KEY l WINDOW 1d 5 FIXED",
        "RL.MREFUND KEY k WINDOW 1d 5 KEY l WINDOW 1d 5 FIXED",
        "rl.mrefund",
    ),
    ("RL.ACQUIRE k 2 1h ID a", "RL.RELEASE k a", "rl.release"),
    ("RL.ACQUIRE k 2 1h ID a", "RL.RESET k LEASE", "rl.reset"),
    ("RL.QUOTA k year 5", "RL.RESET k QUOTA year", "rl.reset"),
    ("CL.THROTTLE k 4 1 3600", "CL.THROTTLE k 4 1 3600 -1", "cl.throttle"),
    // As the server's own types do.
    ("HSET k field value", "HDEL k field", "hdel"),
];

#[test]
fn taking_the_last_away_deletes_the_key_for_listeners_too() {
    let events = "notify-keyspace-events KEghd";
    let server = Server::builder().config(events).start();
    let replica = Server::builder().config(events).replica_of(&server).start();
    replica.wait_in_sync(&server);
    let mut con = server.connection();
    let mut ears = [Listener::attach(&server), Listener::attach(&replica)];
    let mut heard = || {
        replica.wait_in_sync(&server);
        ears.each_mut().map(Listener::events)
    };
    let both = |name: &str, key: &str| {
        [format!("__keyspace@0__:{key} {name}"), format!("__keyevent@0__:{name} {key}")]
    };
    for (made, last, name) in LAST {
        con.ask(made);
        let keys = if con.number("EXISTS l") == 1 { &["k", "l"][..] } else { &["k"] };
        heard();
        con.ask(last);
        assert_eq!(con.number("EXISTS k l"), 0, "{last}");
        let expected = |name: &str| -> Vec<String> {
            keys.iter().flat_map(|key| [both(name, key), both("del", key)]).flatten().collect()
        };
        let applied = if *name == "hdel" { name } else { "rl.e" };
        assert_eq!(heard(), [expected(name), expected(applied)], "{last}");
    }
    // Something is left.
    con.ask("RL.TAKE k COST 2 BUCKET 1/1h 5 QUOTA year 5");
    heard();
    for left in ["RL.REFUND k BUCKET 1/1h 5", "RL.RESET k BUCKET", "RL.REFUND k QUOTA year 5"] {
        con.ask(left);
        for events in heard() {
            assert!(!events.is_empty() && events.iter().all(|event| !event.contains("del")));
        }
    }
    // What was not there is not deleted.
    con.ask("DEL k");
    heard();
    for missing in ["RL.REFUND k BUCKET 1/1h 5", "RL.RESET k LEASE", "RL.RELEASE k a"] {
        con.ask(missing);
        assert_eq!(heard(), [Vec::<String>::new(), Vec::new()], "{missing}");
    }
}

#[test]
fn a_lease_renewed_to_the_end_that_it_has_writes_nothing() {
    needs_clock!();
    let still = Still::at_noon();
    let server = &still.server;
    let mut con = server.connection();
    cmd!(con, "CONFIG", "SET", "notify-keyspace-events", "KEA");
    fill(&mut con);
    let mut tap = ReplicaTap::attach(server);
    let mut listener = Listener::attach(server);
    tap.commands(server);
    let state = || (server.digest_all(), server.info("rdb_changes_since_last_save"));
    let before = state();
    let same = [
        "RL.RENEW k held 1h",
        "RL.ACQUIRE k 2 1h 2 ID held",
        "RL.ACQUIRE k 1 1h 2 ID held",
        "RL.TAKE k LEASE 2 1h ID held COST 2",
        "RL.MTAKE KEY k LEASE 2 1h ID held COST 2",
    ];
    for line in same {
        let reply = con.ask(line);
        let allowed = if let Value::Array(items) = &reply { int(&items[0]) } else { int(&reply) };
        assert_eq!(allowed, 1, "{line}");
        assert_eq!(text(&tap.commands(server)), Vec::<String>::new(), "{line}");
        assert_eq!(listener.events(), Vec::<String>::new(), "{line}");
        assert_eq!(state(), before, "{line}");
    }
    // Beside a layer that is charged.
    con.ask("RL.TAKE k LEASE 2 1h ID held COST 2 QUOTA year 9");
    assert_eq!(tap.commands(server).len(), 1);
    // The same end, but another instant: of that the clock rule must know.
    still.clock.advance_ms(1);
    con.ask("RL.RENEW k held 3599999ms");
    assert_eq!(tap.commands(server).len(), 1);
    for line in same {
        con.ask(line);
        con.ask("RL.RENEW k held 3599999ms");
        assert_eq!(tap.commands(server).len(), 2, "{line}");
    }
}

#[test]
fn a_lease_renewed_in_the_transaction_that_acquired_it_writes_once() {
    if !is_valkey() && version() < (7, 2, 0) {
        return skipped("before 7.2 modules cannot ask for the command's time");
    }
    let server = Server::start();
    let mut con = server.connection();
    let mut tap = ReplicaTap::attach(&server);
    for line in ["MULTI", "RL.ACQUIRE k 2 1h ID a", "RL.RENEW k a 1h", "RL.RENEW k b 1h"] {
        con.ask(line);
    }
    let Value::Array(replies) = con.ask("EXEC") else { panic!("no array") };
    assert_eq!(replies[1..], [Value::Int(1), Value::Int(0)]);
    assert_eq!(tap.commands(&server).len(), 1);
}

#[test]
fn the_clock_rule_is_stored_and_sent_also_by_a_refusal() {
    needs_clock!();
    let still = Still::at_noon();
    let replica = Server::builder().clock(&still.clock).replica_of(&still.server).start();
    replica.wait_in_sync(&still.server);
    let mut con = still.server.connection();
    fill(&mut con);
    let mut tap = ReplicaTap::attach(&still.server);
    for refused in [
        "RL.BUCKET k 1/1h 5",
        "RL.WINDOW k 1d 5",
        "RL.WINDOW k 1d 5 FIXED",
        "RL.WINDOW k 1d 5 LOG",
        "RL.ACQUIRE k 2 1h",
        "RL.TAKE k BUCKET 1/1h 5 WINDOW 1d 5",
        "RL.MTAKE KEY k BUCKET 1/1h 5 WINDOW 1d 5",
    ] {
        // More than a sub-window of a day.
        still.clock.step_us(-7_200_000_000);
        tap.commands(&still.server);
        for looking in ["RL.PEEK k BUCKET 1/1h 5", "RL.INFO k"] {
            con.ask(looking);
        }
        assert!(tap.commands(&still.server).is_empty());
        assert_eq!(con.five(refused)[0], 0, "{refused}");
        assert_eq!(tap.commands(&still.server).len(), 1, "{refused}");
        assert_eq!(con.five(refused)[0], 0, "{refused}");
        assert_eq!(tap.commands(&still.server).len(), 0, "{refused}: moved once");
        replica.wait_in_sync(&still.server);
        replica.assert_same(&still.server, "k");
    }
}

#[test]
fn an_expired_key_is_deleted_as_get_does() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    let mut tap = ReplicaTap::attach(&still.server);
    for meets in [
        "RL.BUCKET k 1 0",
        "RL.WINDOW k 1m 0",
        "RL.QUOTA k day 0",
        "RL.ACQUIRE k 0 1m",
        "RL.TAKE k BUCKET 1 0",
        "RL.RESET k LEASE",
        "RL.REFUND k BUCKET 1 5",
    ] {
        con.ask("RL.BUCKET k 1 5");
        still.clock.advance_ms(3_600_000);
        tap.commands(&still.server);
        con.ask(meets);
        let sent = text(&tap.commands(&still.server));
        assert!(sent == ["DEL k"] || sent == ["UNLINK k"], "{meets}: {sent:?}");
        assert_eq!(con.number("DBSIZE"), 0);
    }
    // Looking at it finds nothing.
    con.ask("RL.BUCKET k 1 5");
    still.clock.advance_ms(3_600_000);
    assert_eq!(con.ask("RL.INFO k"), Value::Nil);
    assert_eq!(con.five("RL.PEEK k BUCKET 1 5"), [1, 5, 5, 0, 0]);
    // A new charge starts afresh.
    assert_eq!(con.five("RL.BUCKET k 1 5"), [1, 5, 4, 0, 1000]);
}
