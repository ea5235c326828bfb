//! The clock steps back and forth under load, for every kind of limit.
//!
//! What counts is the time that the server has *seen*: all that its clock went forward between calls.
//! A step forward is time seen, as if it had passed; a step back is none. Over the time seen no limit
//! may be exceeded, and nobody may wait longer than the limit itself makes him.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
mod workload;

#[path = "clock_steps/quotas.rs"]
mod quotas;

use support::*;
use workload::{Rng, START_US, say};

use redis::Connection;
use redis_limiter_core::calendar::Calendar;
use redis_limiter_core::codec::encode_whole;
use redis_limiter_core::law::Ask;
use redis_limiter_core::limit::{Layer, Params};
use redis_limiter_core::state::View;
use redis_limiter_core::subject::Subject;
use redis_limiter_core::units::Rate;
use redis_limiter_core::window::WindowMode;
use std::collections::BTreeMap;

/// A limit of 20 units, and the law of it.
struct Kind {
    call: &'static str,
    /// What tells beforehand how the call will end, if anything does.
    peek: &'static str,
    /// In any span as long as this (ms of time seen) …
    span_ms: u64,
    /// … at most so many units are admitted.
    most: u64,
    /// Nobody waits longer for one unit.
    longest_wait_ms: i64,
}

const KINDS: [Kind; 8] = [
    // 20 at once and 10 a second.
    Kind {
        call: "RL.BUCKET k 10 20",
        peek: "RL.PEEK k BUCKET 10 20",
        span_ms: 2_000,
        most: 40,
        longest_wait_ms: 100,
    },
    Kind {
        call: "RL.WINDOW k 1600ms 20",
        peek: "RL.PEEK k WINDOW 1600ms 20",
        span_ms: 1_600,
        most: 20,
        longest_wait_ms: 1_700,
    },
    // Twice the limit across an edge.
    Kind {
        call: "RL.WINDOW k 1600ms 20 FIXED",
        peek: "RL.PEEK k WINDOW 1600ms 20 FIXED",
        span_ms: 1_600,
        most: 40,
        longest_wait_ms: 1_600,
    },
    Kind {
        call: "RL.WINDOW k 1600ms 20 LOG",
        peek: "RL.PEEK k WINDOW 1600ms 20 LOG",
        span_ms: 1_600,
        most: 20,
        longest_wait_ms: 1_601,
    },
    Kind {
        call: "RL.ACQUIRE k 20 1600ms",
        peek: "RL.PEEK k LEASE 20 1600ms",
        span_ms: 1_600,
        most: 20,
        longest_wait_ms: 1_600,
    },
    Kind {
        call: "RL.TAKE k BUCKET 10 20 WINDOW 1600ms 20 LOG",
        peek: "RL.PEEK k BUCKET 10 20 WINDOW 1600ms 20 LOG",
        span_ms: 1_600,
        most: 20,
        longest_wait_ms: 1_601,
    },
    // What counts is when the callers act. One that is refused waits until its wait is short enough.
    Kind {
        call: "RL.BUCKET k 10 20 1 MAXWAIT 500ms",
        peek: "",
        span_ms: 2_000,
        most: 40,
        longest_wait_ms: 100,
    },
    Kind {
        call: "RL.MTAKE KEY k WINDOW 1600ms 20 KEY l BUCKET 10 20 WINDOW 1600ms 20 FIXED",
        peek: "RL.MPEEK KEY k WINDOW 1600ms 20 KEY l BUCKET 10 20 WINDOW 1600ms 20 FIXED",
        span_ms: 1_600,
        most: 20,
        longest_wait_ms: 1_700,
    },
];

const STEPS_MS: [i64; 6] =
    [-1_000, 1_000, -3_600_000, 3_600_000, -365 * 86_400_000, 365 * 86_400_000];

/// One key under load, and all that was admitted on it.
struct Load<'a> {
    kind: &'a Kind,
    clock: &'a Clock,
    con: Connection,
    last_us: u64,
    seen_us: u64,
    /// When what was admitted takes place.
    acts_us: Vec<u64>,
}

impl Load<'_> {
    /// Calls once: whether it was admitted, and how long to wait if not.
    fn call(&mut self) -> (bool, i64) {
        let now_us = self.clock.now_us();
        self.seen_us += now_us.saturating_sub(self.last_us);
        self.last_us = now_us;
        let peeked = match self.kind.peek {
            "" => None,
            peek => Some(five(&say(&mut self.con, peek))),
        };
        let reply = five(&say(&mut self.con, self.kind.call));
        if let Some(peeked) = peeked {
            assert_eq!((peeked[0], peeked[3]), (reply[0], reply[3]), "{}", self.kind.call);
        }
        if reply[0] == 1 {
            assert!((0..=500).contains(&reply[3]), "{}: {reply:?}", self.kind.call);
            self.acts_us.push(self.seen_us + 1000 * u64::try_from(reply[3]).unwrap());
            return (true, 0);
        }
        assert!(
            (1..=self.kind.longest_wait_ms).contains(&reply[3]),
            "{}: locked out for {} ms",
            self.kind.call,
            reply[3]
        );
        (false, reply[3])
    }

    /// Nothing but this client uses the limit: the wait is exact.
    fn wait_out(&mut self, retry_ms: i64) {
        let retry_ms = u64::try_from(retry_ms).unwrap();
        self.clock.advance_ms(retry_ms - 1);
        assert!(!self.call().0, "{}: admitted 1 ms early", self.kind.call);
        self.clock.advance_ms(1);
        assert!(self.call().0, "{}: not admitted in time", self.kind.call);
    }

    /// No span of the time seen has more than the law allows.
    fn check_law(&self) {
        let (span_us, most) = (self.kind.span_ms * 1000, usize::try_from(self.kind.most).unwrap());
        let mut acts_us = self.acts_us.clone();
        acts_us.sort_unstable();
        for (n, &at_us) in acts_us.iter().enumerate().skip(most) {
            let first_us = acts_us[n - most];
            assert!(
                at_us - first_us >= span_us,
                "{}: {} units within {} us",
                self.kind.call,
                most + 1,
                at_us - first_us
            );
        }
    }
}

fn under_steps(kind: &Kind, seed: u64) {
    let clock = Clock::new(START_US);
    let server = Server::builder().clock(&clock).start();
    let replica = Server::builder().clock(&clock).replica_of(&server).start();
    let con = server.connection();
    let mut load =
        Load { kind, clock: &clock, con, last_us: START_US, seen_us: 0, acts_us: Vec::new() };
    let mut rng = Rng::new(seed);
    for _ in 0..1_500 {
        match rng.below(40) {
            0 => {
                let step = STEPS_MS[usize::try_from(rng.below(6)).unwrap()];
                // Stay near the start: far in the past is before the servers' own time.
                let far = clock.now_ms().abs_diff(START_US / 1000) > 2 * 365 * 86_400_000;
                let back = clock.now_us() > START_US;
                clock.step_us(
                    1000 * if far { step.abs() * if back { -1 } else { 1 } } else { step },
                );
            }
            1 => clock.advance_us(rng.below(kind.span_ms * 1000)),
            _ => clock.advance_us(rng.below(60_000)),
        }
        if let (false, retry_ms) = load.call()
            && rng.one_in(3)
        {
            load.wait_out(retry_ms);
        }
    }
    assert!(load.acts_us.len() > 200, "{}: hardly anything admitted", kind.call);
    load.check_law();
    replica.wait_in_sync(&server);
    assert_eq!(replica.digest_all(), server.digest_all(), "{}", kind.call);
    workload::assert_no_propagation_error(&replica);
}

macro_rules! steps {
    ($($name:ident: $index:expr;)+) => {$(
        #[test]
        fn $name() {
            needs_clock!();
            under_steps(&KINDS[$index], 40 + $index);
        }
    )+};
}

steps! {
    a_bucket: 0;
    a_sliding_window: 1;
    a_fixed_window: 2;
    a_log: 3;
    leases: 4;
    layers: 5;
    booked_ahead: 6;
    layers_of_two_keys: 7;
}

/// Four clients at once while the clock runs and steps. A step forward frees at most all of a limit
/// once more; a step back frees nothing.
#[test]
fn clients_side_by_side() {
    needs_clock!();
    for (kind, step_ms) in KINDS.iter().flat_map(|kind| [1_000, 3_600_000].map(|s| (kind, s))) {
        let clock = Clock::new(START_US);
        let server = Server::builder().clock(&clock).start();
        let done = workload::Stop::default();
        let (mut seen_us, mut steps) = (0, 0);
        let admitted: u64 = std::thread::scope(|scope| {
            let guard = done.guard();
            let client = |mut con: Connection| {
                let mut admitted = 0;
                while !done.is_set() {
                    let reply = five(&say(&mut con, kind.call));
                    let longest = if reply[0] == 1 { 500 } else { kind.longest_wait_ms };
                    assert!((0..=longest).contains(&reply[3]), "{}: {reply:?}", kind.call);
                    admitted += u64::try_from(reply[0]).unwrap();
                }
                admitted
            };
            let spawn = |_| {
                let con = server.connection();
                scope.spawn(move || client(con))
            };
            let clients: Vec<_> = (0..4).map(spawn).collect();
            let mut rng = Rng::new(7);
            for n in 0..120_u64 {
                // There, and back again some time later.
                if n % 20 == 5 {
                    clock.step_us(step_ms * 1000);
                    steps += 1;
                } else if n % 20 == 15 {
                    clock.step_us(-step_ms * 1000);
                } else {
                    let forward_us = rng.below(60_000);
                    clock.advance_us(forward_us);
                    seen_us += forward_us;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            drop(guard);
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        // 20 at once, once more after each step forward, and as the time goes; booked: 5 more.
        let by_time = (seen_us / 1000).div_ceil(kind.span_ms) * kind.most;
        let most = 20 * (1 + steps) + by_time + 5;
        assert!(admitted > 20 && admitted <= most, "{}: {admitted} of {most}", kind.call);
    }
}

/// What a step of each size does to a limit that is used up: back, the wait is the same; forward, it
/// is over as soon as the time was seen.
#[test]
fn one_step_never_locks_out() {
    needs_clock!();
    for kind in &KINDS {
        for step_ms in STEPS_MS {
            let clock = Clock::new(START_US);
            let server = Server::builder().clock(&clock).start();
            let con = server.connection();
            let (last_us, acts_us) = (START_US, Vec::new());
            let mut load = Load { kind, clock: &clock, con, last_us, seen_us: 0, acts_us };
            while load.call().0 {}
            clock.step_us(step_ms * 1000);
            match load.call() {
                (true, _) => assert!(step_ms > 0, "{}: a step back admits", kind.call),
                (false, retry_ms) => load.wait_out(retry_ms),
            }
        }
    }
}

/// Limits of 20 units, all in use since `at_us`, as RL.E takes them.
fn used_up(at_us: u64) -> Vec<u8> {
    let window = |mode| Params::Window { mode, length_ms: 64, limit: 20 };
    let limits = [
        Params::Bucket { rate: Rate::parse(b"100").unwrap(), burst: 20 },
        window(WindowMode::Sliding),
        window(WindowMode::Fixed),
        window(WindowMode::Log),
        Params::Lease { limit: 20, ttl_ms: 64, id: Some(b"held"), nx: false },
    ];
    let mut subject = None;
    for params in limits {
        let layer = Layer { params, name: None, ask: Ask::whole(20) };
        let view = View::new(subject.as_ref(), 0, &layer, at_us, &mut Calendar::new());
        let delta = view.charge(&layer, view.decide(&layer).unwrap()).unwrap();
        Subject::apply(&mut subject, &[(layer.identity(), delta)], at_us).unwrap();
    }
    let mut blob = Vec::new();
    encode_whole(&subject.unwrap(), &mut blob);
    blob
}

/// The clock rule on every server, also where no test can turn the clock: what a clock that was ahead
/// has stored.
#[test]
fn a_state_from_the_future_locks_nobody_out() {
    let server = Server::start();
    let mut con = server.connection();
    for ahead_ms in [10_000, 3_600_000, 365 * 86_400_000] {
        for (call, peek, longest_ms) in [
            ("RL.BUCKET k 100 20", "BUCKET 100 20", 10),
            ("RL.WINDOW k 64ms 20", "WINDOW 64ms 20", 68),
            ("RL.WINDOW k 64ms 20 1 FIXED", "WINDOW 64ms 20 FIXED", 64),
            ("RL.WINDOW k 64ms 20 1 LOG", "WINDOW 64ms 20 LOG", 65),
            ("RL.ACQUIRE k 20 64ms", "LEASE 20 64ms", 64),
        ] {
            let blob = used_up(server.time_us() + ahead_ms * 1000);
            cmd!(con, "RL.E", "k", blob);
            for seen in [say(&mut con, &format!("RL.PEEK k {peek}")), say(&mut con, call)] {
                let seen = five(&seen);
                assert_eq!(seen[0], 0, "{call}: {ahead_ms} ms ahead: {seen:?}");
                assert!((1..=longest_ms).contains(&seen[3]), "{call}: {ahead_ms} ms: {seen:?}");
            }
            // From here on the time runs: the refusal has stored the clock's step.
            let start = std::time::Instant::now();
            let mut last = five(&say(&mut con, call));
            while last[0] == 0 {
                let waited = start.elapsed();
                assert!(waited < SOON, "{call}: {ahead_ms} ms ahead: still {last:?}");
                std::thread::sleep(std::time::Duration::from_millis(last[3].unsigned_abs()));
                last = five(&say(&mut con, call));
            }
        }
    }
}
