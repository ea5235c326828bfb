//! Latency under load, beside the same load with SET in the same run. Long: `make soak` runs it.
//!
//! Many rounds of both alternate. Whatever else the machine does spoils some of them, but what the
//! server does itself shows in all: so each side counts by the lower quartile of its rounds.
//! `RL_LOAD_SECONDS` is the length of a round (default 2), `RL_LOAD_RATE` the commands per second
//! (default 10,000).
#![allow(clippy::unwrap_used, clippy::panic)]

mod generator;
mod support;
use generator::{Generator, Request, allow_files};
use support::*;

use std::time::Duration;

const ROUNDS: usize = 16;
/// No spike: the tail may be as much longer as the quiet rounds of a noisy machine differ.
const MOST: f64 = 2.0;

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Commands of words divided by blanks, as one request.
fn request(commands: &[String], lines: usize) -> Request {
    let each = commands.iter().map(|command| {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        encode(&words)
    });
    Request { bytes: each.collect::<Vec<_>>().concat(), lines }
}

fn percentile(sorted: &[u64], per_mille: usize) -> u64 {
    sorted[(sorted.len() * per_mille / 1000).min(sorted.len() - 1)]
}

/// Runs `ours` and `theirs` in turn on `connections` connections.
fn compare(
    what: &str,
    connections: usize,
    commands_per_request: u32,
    mut ours: impl FnMut(u32) -> Request,
    mut theirs: impl FnMut(u32) -> Request,
) {
    assert!(allow_files(connections as u64 + 200), "too few files allowed: ulimit -n");
    let server = Server::builder().config(format!("maxclients {}", connections + 100)).start();
    let mut load = Generator::connect(&server.socket(), connections);
    let time = Duration::from_secs(number("RL_LOAD_SECONDS", 2).into());
    let rate = (number("RL_LOAD_RATE", 10_000) / commands_per_request).max(1);
    let (mut n, mut rounds) = (0, [(); 2].map(|()| Vec::new()));
    for round in 0..=ROUNDS {
        for (side, latencies) in rounds.iter_mut().enumerate() {
            let sorted = load.run(time, rate, || {
                n += 1;
                if side == 0 { ours(n) } else { theirs(n) }
            });
            // The first round only warms up.
            if round > 0 {
                latencies.push([500, 990, 999].map(|part| percentile(&sorted, part)));
            }
        }
    }
    let quartile = |side: usize, column: usize| {
        let mut values: Vec<u64> = rounds[side].iter().map(|round| round[column]).collect();
        values.sort_unstable();
        values[values.len() / 4]
    };
    let show =
        |side| format!("{} / {} / {} µs", quartile(side, 0), quartile(side, 1), quartile(side, 2));
    #[allow(clippy::cast_precision_loss)]
    let ratio = quartile(0, 2) as f64 / quartile(1, 2) as f64;
    println!("{what}: p50 / p99 / p99.9 {}, SET {}, ratio of p99.9 {ratio:.2}", show(0), show(1));
    assert!(ratio <= MOST, "{what}: p99.9 is {ratio:.2} times that of SET");
}

fn bucket(key: u32) -> String {
    format!("RL.BUCKET key:{key} 50/s 100")
}

fn set(key: u32) -> String {
    format!("SET other:{key} 12345678901234567890 PX 3000")
}

/// Some key of 100,000.
fn spread(n: u32) -> u32 {
    n.wrapping_mul(2_654_435_761) % 100_000
}

#[test]
#[ignore = "long: make soak"]
fn ten_thousand_connections() {
    let ours = |n| request(&[bucket(spread(n))], 6);
    let theirs = |n| request(&[set(spread(n))], 1);
    compare("10,000 connections, random keys", 10_000, 1, ours, theirs);
}

#[test]
#[ignore = "long: make soak"]
fn a_hot_key() {
    let ours = |_| request(&[bucket(0)], 6);
    let theirs = |_| request(&[set(0)], 1);
    compare("hot key, 10,000 connections", 10_000, 1, ours, theirs);
}

#[test]
#[ignore = "long: make soak"]
fn pipelines_of_a_thousand() {
    let many = |n: u32, command: fn(u32) -> String| -> Vec<String> {
        (0..1000).map(|more| command(spread(n * 1000 + more))).collect()
    };
    let ours = |n| request(&many(n, bucket), 6000);
    let theirs = |n| request(&many(n, set), 1000);
    compare("pipelines of 1,000", 20, 400, ours, theirs);
}

/// Beside as many SETs in a transaction.
#[test]
#[ignore = "long: make soak"]
fn calls_with_32_layers() {
    let layers: Vec<String> = (0..32)
        .map(|n| match n % 4 {
            0 => format!("BUCKET 50/s 100 AS l{n}"),
            1 => format!("WINDOW 1m 1000000 AS l{n}"),
            2 => format!("WINDOW 1m 1000000 FIXED AS l{n}"),
            _ => format!("QUOTA month 100000000 TZ Europe/Berlin AS l{n}"),
        })
        .collect();
    let layers = layers.join(" ");
    let ours = |n| request(&[format!("RL.TAKE key:{} {layers}", spread(n) % 10_000)], 7);
    let theirs = |n| {
        let sets = (0..32).map(|more| set(spread(n * 32 + more)));
        let all = [vec!["MULTI".into()], sets.collect(), vec!["EXEC".into()]].concat();
        request(&all, 1 + 32 + 1 + 32)
    };
    compare("32 layers a call", 100, 8, ours, theirs);
}
