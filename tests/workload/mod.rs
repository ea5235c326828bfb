//! Random calls over every kind of limit, and what a server must keep of them.
// Each test file uses its own part of this; helpers may end a test by panicking.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::{
    Builder, Clock, SOON, Server, clock_supported, error_text, eventually, plain,
};
use redis::{Connection, ConnectionLike as _, RedisResult, Value};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A command and its arguments.
pub type Call = Vec<Vec<u8>>;

/// Where the clocks of tests start: 2026-03-29 00:30:00.000123 UTC, half an hour before Europe turns
/// its clocks.
pub const START_US: u64 = 1_774_744_200_000_123;

/// A small generator of random numbers (splitmix64): the same seed, the same calls, for ever.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator; every seed is good.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n`.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `items`.
    pub fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[usize::try_from(self.below(items.len() as u64)).unwrap()]
    }
}

/// A limit as RL.BUCKET, RL.WINDOW and RL.QUOTA and as layers take it: kind, positional arguments,
/// options. Short ones end under load, long ones stay.
pub type Limit = (&'static str, &'static str, &'static str);

/// Every kind, mode and period; all of them live on every key.
pub const LIMITS: [Limit; 16] = [
    ("BUCKET", "500 200", ""),
    ("BUCKET", "10/1h 500", "AS slow"),
    ("BUCKET", "0.5 1000", "AS x"),
    ("WINDOW", "50ms 30", ""),
    ("WINDOW", "1h 300", ""),
    ("WINDOW", "1h 200", "AS x"),
    ("WINDOW", "100ms 50", "FIXED"),
    ("WINDOW", "1d 500", "FIXED"),
    ("WINDOW", "20ms 40", "LOG"),
    ("WINDOW", "1h 400", "LOG AS audit"),
    ("QUOTA", "minute 500", ""),
    ("QUOTA", "hour 800", "AS x"),
    ("QUOTA", "day 5000", "TZ Europe/Berlin"),
    ("QUOTA", "week 9000", "ANCHOR sun TZ America/New_York"),
    ("QUOTA", "month 100000", "TZ Asia/Kolkata ANCHOR 31"),
    ("QUOTA", "year 1000000", ""),
];

/// An endless sequence of calls, none of which is an error.
#[derive(Clone, Debug)]
pub struct Workload {
    pub rng: Rng,
    pub keys: Vec<Vec<u8>>,
}

/// Words of a call; `@` is the key, `@@` a second one.
fn words(text: &str, key: &[u8], other: &[u8]) -> Call {
    let word = |word: &str| match word {
        "@" => key.to_vec(),
        "@@" => other.to_vec(),
        word => word.as_bytes().to_vec(),
    };
    text.split_ascii_whitespace().map(word).collect()
}

impl Workload {
    /// Calls on four keys of one hash slot; two of them are no text.
    pub fn new(seed: u64) -> Self {
        let keys = [&b"{t}"[..], b"{t}:user", b"{t}\x00\xff\r\n", b"{t} \"'%s"];
        Self { rng: Rng::new(seed), keys: keys.map(<[u8]>::to_vec).to_vec() }
    }

    /// The next call, of any command of the module.
    pub fn call(&mut self) -> Call {
        let text = match self.rng.below(20) {
            0..8 => self.single(),
            8..10 => self.acquire(),
            10 => self.end_lease(),
            11..14 => format!("RL.TAKE @ {} {}", self.call_options("FORCE"), self.layers(true)),
            14 => format!("RL.REFUND @ {} {}", self.call_options("AGE 30ms"), self.layers(false)),
            15..17 => {
                let options = self.call_options("FORCE");
                format!(
                    "RL.MTAKE {options} KEY @ {} KEY @@ {}",
                    self.layers(true),
                    self.layers(true)
                )
            }
            17 => {
                let options = self.call_options("AGE 2h");
                let (a, b) = (self.layers(false), self.layers(false));
                format!("RL.MREFUND {options} KEY @ {a} KEY @@ {b}")
            }
            18 if self.rng.one_in(2) => format!("CL.THROTTLE @ 99 30 60 {}", self.rng.below(3)),
            18 => self.read(),
            _ if self.rng.one_in(4) => self.reset(),
            _ => self.single(),
        };
        let first = usize::try_from(self.rng.below(self.keys.len() as u64)).unwrap();
        let second = (first + 1) % self.keys.len();
        words(&text, &self.keys[first], &self.keys[second])
    }

    fn limit(&mut self) -> Limit {
        LIMITS[usize::try_from(self.rng.below(LIMITS.len() as u64)).unwrap()]
    }

    fn single(&mut self) -> String {
        let (kind, values, options) = self.limit();
        let cost = self.rng.below(6);
        let more = match self.rng.below(12) {
            0 => "FORCE",
            1 if cost > 0 => "UPTO",
            2 => "LEAVE 10",
            3 if kind == "BUCKET" => "MAXWAIT 200ms",
            _ => "",
        };
        format!("RL.{kind} @ {values} {cost} {options} {more}")
    }

    /// Each id has its number of slots, since another number is an error.
    fn lease_id(&mut self) -> (String, u64) {
        let n = self.rng.below(40);
        (format!("job-{n}"), 1 + n % 3)
    }

    fn acquire(&mut self) -> String {
        let ttl = self.rng.pick(&["5ms", "1s", "30m", "1h"]);
        let (id, slots) = self.lease_id();
        match self.rng.below(4) {
            0 => format!("RL.ACQUIRE @ 30 {ttl} AS render"),
            1 => format!("RL.ACQUIRE @ 40 {ttl} {slots} NX ID {id}"),
            _ => format!("RL.ACQUIRE @ 40 {ttl} {slots} ID {id}"),
        }
    }

    fn end_lease(&mut self) -> String {
        let ((a, _), (b, _)) = (self.lease_id(), self.lease_id());
        match self.rng.below(2) {
            0 => format!("RL.RELEASE @ {a} {b}"),
            _ => format!("RL.RENEW @ {a} 20m"),
        }
    }

    fn call_options(&mut self, own: &str) -> String {
        let cost = self.rng.below(4);
        let own = if self.rng.one_in(6) { own } else { "" };
        match self.rng.below(3) {
            0 => format!("COST {cost} {own} DETAIL"),
            1 => format!("{own} COST {cost}"),
            _ => own.to_owned(),
        }
    }

    /// Layers, each limit at most once.
    fn layers(&mut self, lease: bool) -> String {
        let (start, count) = (self.rng.below(16), 1 + self.rng.below(6));
        let layer = |n: u64| {
            let (kind, values, options) = LIMITS[usize::try_from((start + n * 5) % 16).unwrap()];
            let cost = self.rng.below(3);
            let own = if self.rng.one_in(3) { format!("COST {cost}") } else { String::new() };
            format!("{kind} {values} {options} {own}")
        };
        let mut layers: Vec<String> = (0..count).map(layer).collect();
        if lease && self.rng.one_in(3) {
            let (id, slots) = self.lease_id();
            layers.push(format!("LEASE 40 1h COST {slots} ID {id}"));
        }
        layers.join(" ")
    }

    fn read(&mut self) -> String {
        match self.rng.below(3) {
            0 => "RL.INFO @".to_owned(),
            1 => format!("RL.PEEK @ DETAIL {}", self.layers(false)),
            _ => format!("RL.MPEEK KEY @ {} KEY @@ {}", self.layers(false), self.layers(false)),
        }
    }

    fn reset(&mut self) -> String {
        let identity =
            ["BUCKET AS x", "WINDOW 60m", "WINDOW 1h LOG AS audit", "QUOTA week", "LEASE"];
        format!("RL.RESET @ {}", self.rng.pick(&identity))
    }
}

/// Sends one call.
pub fn try_call(con: &mut Connection, call: &[Vec<u8>]) -> RedisResult<Value> {
    let mut command = redis::Cmd::new();
    for word in call {
        command.arg(word.as_slice());
    }
    con.req_command(&command).and_then(Value::extract_error)
}

/// Sends words separated by blanks; an error reply fails the test.
#[track_caller]
pub fn say(con: &mut Connection, text: &str) -> Value {
    let call = words(text, b"@", b"@@");
    try_call(con, &call).unwrap_or_else(|e| panic!("{text}: {}", error_text(&e)))
}

/// A server and its load. The clock stands still between calls where the server lets tests turn it.
#[derive(Debug)]
pub struct Run {
    pub server: Server,
    pub clock: Option<Clock>,
    pub load: Workload,
}

impl Run {
    /// Starts a server, and plays a first load on it.
    #[track_caller]
    pub fn start(seed: u64, configure: impl FnOnce(Builder) -> Builder) -> Self {
        let clock = clock_supported().then(|| Clock::new(START_US));
        let server = with_clock(configure(Server::builder()), clock.as_ref()).start();
        let mut run = Self { server, clock, load: Workload::new(seed) };
        run.play(1200);
        run
    }

    /// Another server with the same clock.
    #[track_caller]
    pub fn another(&self, configure: impl FnOnce(Builder) -> Builder) -> Server {
        with_clock(configure(Server::builder()), self.clock.as_ref()).start()
    }

    /// Sends `count` random calls; none may be an error.
    #[track_caller]
    pub fn play(&mut self, count: u32) {
        let mut con = self.server.connection();
        for _ in 0..count {
            if let Some(clock) = &self.clock {
                clock.advance_us(self.load.rng.below(4_000));
            }
            let call = self.load.call();
            if let Err(e) = try_call(&mut con, &call) {
                panic!("{}: {}", show(&call), error_text(&e));
            }
        }
    }

    /// What the server holds and answers.
    #[track_caller]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_of(&self.server)
    }

    /// What another server holds and answers.
    #[track_caller]
    pub fn snapshot_of(&self, server: &Server) -> Snapshot {
        Snapshot::take(server, &self.load.keys, self.clock.is_some())
    }
}

/// The builder with the clock, if there is one.
pub fn with_clock(builder: Builder, clock: Option<&Clock>) -> Builder {
    match clock {
        Some(clock) => builder.clock(clock),
        None => builder,
    }
}

/// All that must survive: data, expiry, and while the clock stands still every answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot {
    digest: String,
    keys: Vec<(String, String, i64, Vec<String>)>,
}

impl Snapshot {
    /// Reads it from a server; `answers` only if its clock stands still.
    #[track_caller]
    pub fn take(server: &Server, keys: &[Vec<u8>], answers: bool) -> Self {
        let mut con = server.connection();
        let mut one = |key: &Vec<u8>| {
            let answers = if answers { answers_of(&mut con, key) } else { Vec::new() };
            let (digest, expires_ms) = (server.digest(&key[..]), server.pexpiretime(&key[..]));
            assert!(expires_ms > 0, "{}: {expires_ms}", key.escape_ascii());
            (key.escape_ascii().to_string(), digest, expires_ms, answers)
        };
        Self { keys: keys.iter().map(&mut one).collect(), digest: server.digest_all() }
    }
}

/// What INFO shows, and what PEEK answers to two costs for every limit.
fn answers_of(con: &mut Connection, key: &[u8]) -> Vec<String> {
    let layers = |limit: &Limit| format!("{} {} {}", limit.0, limit.1, limit.2);
    let layers = LIMITS.iter().map(layers).collect::<Vec<_>>().join(" ");
    let leases = "LEASE 40 1h LEASE 30 1h AS render";
    let calls = [
        "RL.INFO @".to_owned(),
        format!("RL.PEEK @ DETAIL {layers} {leases}"),
        format!("RL.PEEK @ COST 30 DETAIL {layers} LEASE 40 1h COST 30"),
    ];
    let answer = |text: &String| match try_call(con, &words(text, key, key)) {
        Ok(value) => plain(&value),
        Err(e) => panic!("{text}: {}", error_text(&e)),
    };
    calls.iter().map(answer).collect()
}

/// A call for a person to read.
pub fn show(call: &[Vec<u8>]) -> String {
    call.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

/// Waits for the end of a background job that INFO names, which must have gone well.
#[track_caller]
pub fn wait_for_job(server: &Server, running: &str, status: &str) {
    eventually(SOON, || server.info(running).as_deref() == Some("0"));
    assert_eq!(server.info(status).as_deref(), Some("ok"), "{}", server.log());
}

/// Rewrites the AOF, and waits for it.
#[track_caller]
pub fn rewrite_aof(server: &Server) {
    // A rewrite that was scheduled behind another one starts a little later.
    crate::support::cmd!(server.connection(), "BGREWRITEAOF");
    eventually(SOON, || server.info("aof_rewrite_scheduled").as_deref() == Some("0"));
    wait_for_job(server, "aof_rewrite_in_progress", "aof_last_bgrewrite_status");
}

/// Fails when a replica or a replayed file was given something that it could not apply.
#[track_caller]
pub fn assert_no_propagation_error(server: &Server) {
    let log = server.log();
    let bad = |line: &&str| {
        let line = line.to_lowercase();
        // A link that a test has cut with a password.
        !line.contains("noauth")
            && ["critical", "propagat", "internal error", "unexpected"]
                .iter()
                .any(|w| line.contains(w))
    };
    let lines: Vec<&str> = log.lines().filter(bad).collect();
    assert!(lines.is_empty(), "{lines:#?}");
}

/// Tells the threads of a load to end, also when the test fails; else it would wait for them for ever.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Whether to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Says so when the guard goes.
    pub fn guard(&self) -> impl Drop {
        struct Guard<'a>(&'a AtomicBool);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        Guard(&self.0)
    }
}
