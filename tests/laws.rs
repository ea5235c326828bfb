//! The retry law on a real server, for random limits of all kinds, alone and in layers: refused 1 ms
//! before the promised time, admitted at it; and RL.PEEK foretells it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use support::*;

/// Small numbers from a fixed seed.
struct Dice {
    state: u64,
    /// The least cost: calls of cost 0 never write, so they do not store that a clock stepped back.
    least_cost: u64,
}

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % bound
    }

    fn cost(&mut self) -> u64 {
        self.least_cost + self.below(4)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

const RATES: [&str; 6] = ["1/1s", "7/3s", "10", "1/7ms", "0.3", "100/1m"];
const WINDOWS: [&str; 5] = ["16ms", "100ms", "1s", "7s", "1m"];
const MODES: [&str; 4] = ["", " SLIDING", " FIXED", " LOG"];
const PERIODS: [&str; 5] = [
    "minute",
    "hour",
    "day TZ Asia/Kathmandu",
    "week ANCHOR wed",
    "month ANCHOR 31 TZ America/New_York",
];
const TTLS: [&str; 4] = ["1ms", "300ms", "2s", "30s"];

/// `month … ANCHOR 31` with the limit where it belongs.
fn quota(dice: &mut Dice, limit: u64) -> String {
    let period = dice.pick(&PERIODS);
    let (period, options) = period.split_once(' ').unwrap_or((period, ""));
    format!("{period} {limit} {options}")
}

fn single(dice: &mut Dice) -> String {
    let (limit, cost) = (1 + dice.below(9), dice.cost());
    let mut options = match dice.below(5) {
        0 => " FORCE".to_owned(),
        1 if cost > 0 => " UPTO".to_owned(),
        2 => format!(" LEAVE {}", dice.below(4)),
        _ => String::new(),
    };
    if dice.below(4) == 0 {
        options += " AS name";
    }
    match dice.below(4) {
        0 => {
            if dice.below(3) == 0 && !options.contains(['F', 'U']) {
                options += dice.pick(&[" MAXWAIT 1ms", " MAXWAIT 500ms", " MAXWAIT 3s"]);
            }
            format!("RL.BUCKET k {} {limit} {cost}{options}", dice.pick(&RATES))
        }
        1 => {
            let (window, mode) = (dice.pick(&WINDOWS), dice.pick(&MODES));
            format!("RL.WINDOW k {window} {limit} {cost}{mode}{options}")
        }
        2 => {
            let quota = quota(dice, limit);
            let (head, tail) = quota.split_once(' ').unwrap();
            let (limit, tail) = tail.split_once(' ').unwrap();
            format!("RL.QUOTA k {head} {limit} {cost} {tail}{options}")
        }
        _ => {
            let ttl = dice.pick(&TTLS);
            let id = dice.pick(&["", " ID a", " ID b", " ID c NX"]);
            format!("RL.ACQUIRE k {limit} {ttl} {}{id}", 1 + dice.below(3))
        }
    }
}

fn layers(dice: &mut Dice, ids: &mut u64) -> String {
    let mut all = String::new();
    for layer in 0..=dice.below(4) {
        let limit = 1 + dice.below(9);
        all += &match dice.below(4) {
            0 => format!(" BUCKET {} {limit}", dice.pick(&RATES)),
            1 => format!(" WINDOW {} {limit}{}", dice.pick(&WINDOWS), dice.pick(&MODES)),
            2 => format!(" QUOTA {}", quota(dice, limit)),
            _ => {
                *ids += 1;
                // Some ids are held from before.
                let id = if dice.below(2) == 0 { *ids } else { dice.below(3) };
                format!(" LEASE {limit} {} ID {id}", dice.pick(&TTLS))
            }
        };
        // Names keep the layers apart, and let calls meet.
        all += &format!(" AS n{layer}");
        if dice.below(3) == 0 {
            all += &format!(" COST {}", dice.cost());
        }
        if dice.below(4) == 0 {
            all += &format!(" LEAVE {}", dice.below(3));
        }
    }
    all
}

fn layered(dice: &mut Dice, ids: &mut u64) -> String {
    let cost = dice.cost();
    if dice.below(3) > 0 {
        format!("RL.TAKE k COST {cost}{}", layers(dice, ids))
    } else {
        format!("RL.MTAKE COST {cost} KEY k{} KEY l{}", layers(dice, ids), layers(dice, ids))
    }
}

fn drive(seed: u64, calls: usize, call: impl Fn(&mut Dice, &mut u64) -> String) {
    let still = Still::at_us(NOON_MS * 1000 + 617);
    let mut con = still.server.connection();
    let steps_back = seed.is_multiple_of(2);
    let (mut dice, mut ids) = (Dice { state: seed, least_cost: u64::from(steps_back) }, 0);
    let (mut promises, mut nevers, mut admitted) = (0, 0, 0);
    for _ in 0..calls {
        match dice.below(40) {
            0 if steps_back => still.clock.step_us(-i64::try_from(dice.below(5_000_000)).unwrap()),
            1 if steps_back => still.clock.step_us(-90_000_000_000),
            2 => drop(con.ask("DEL k")),
            _ => still.clock.advance_us(dice.below(300_000)),
        }
        let line = call(&mut dice, &mut ids);
        let peek = line.replacen("TAKE", "PEEK", 1);
        let foretold = (peek != line).then(|| con.try_ask(&peek).map(|reply| five(&reply)).ok());
        // A held id with another number of slots is an error, and so is a 65th limit.
        let Ok(reply) = con.try_ask(&line) else { continue };
        let [allowed, _, _, retry_ms, reset_ms] = five(&reply);
        match foretold {
            Some(foretold) => {
                let foretold = foretold.map(|answer| (answer[0], answer[3]));
                assert_eq!(foretold, Some((allowed, retry_ms)), "{line}");
            }
            None => assert!(reset_ms >= retry_ms || allowed > 0, "{line}: {reply:?}"),
        }
        match (allowed, retry_ms) {
            (1.., _) => admitted += 1,
            (_, -1) => nevers += 1,
            _ => {
                still.keeps_promise(&mut con, &line);
                promises += 1;
            }
        }
        // Whatever happened: no key without an expiry.
        for key in ["k", "l"] {
            assert_ne!(con.number(&format!("PTTL {key}")), -1, "{line}");
        }
    }
    assert!(
        promises * 20 > calls && admitted * 20 > calls && nevers > 0,
        "{promises} promises, {nevers} nevers, {admitted} admitted"
    );
}

#[test]
fn single_limits_keep_their_promises() {
    needs_clock!();
    for seed in 1..=4 {
        drive(seed, 700, |dice, _| single(dice));
    }
}

#[test]
fn layers_keep_their_promises() {
    needs_clock!();
    for seed in 1..=4 {
        drive(seed, 700, layered);
    }
}

#[test]
fn singles_and_layers_together() {
    needs_clock!();
    for seed in 1..=4 {
        drive(
            seed,
            1500,
            |dice, ids| {
                if dice.below(2) == 0 { single(dice) } else { layered(dice, ids) }
            },
        );
    }
}

/// A held id takes nothing now, but by the time that the other layers admit its lease may be over.
#[test]
fn a_held_lease_that_ends_while_others_wait() {
    needs_clock!();
    for (limit, wait_ms) in [(1, 100_000), (2, 10_000), (9, 10_000)] {
        let still = Still::at_us(NOON_MS * 1000 + 617);
        let mut con = still.server.connection();
        con.ask("RL.ACQUIRE k 9 5s ID a");
        con.ask("RL.ACQUIRE k 9 100s ID b");
        con.ask("RL.BUCKET k 1/10s 1");
        let call = format!("RL.TAKE k BUCKET 1/10s 1 LEASE {limit} 5s ID a");
        assert_eq!(still.keeps_promise(&mut con, &call), wait_ms, "limit {limit}");
    }
}
