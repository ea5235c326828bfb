//! Rounds: each case of a group for a moment, again and again, so that whatever slows the machine
//! meets all of them; then medians.

use crate::cases::{Case, Group, Needs, Spread};
use crate::load::{Call, Keys, Load};
use crate::scripts::{self, Names};
use crate::server::{Durability, Server, Setup};
use crate::{Options, Result};
use serde_json::{Value, json};

/// Connections of the load generator.
pub const CONNECTIONS: usize = 16;

/// The medians of one case under one condition.
#[derive(Clone, Debug)]
pub struct Cell {
    pub group: &'static str,
    pub spread: Spread,
    pub durability: Durability,
    pub case: &'static str,
    /// Calls under way per connection.
    pub depth: usize,
    /// Thousand calls a second.
    pub kcalls: f64,
    /// Microseconds a call by INFO commandstats: the commands alone.
    pub usec: f64,
    /// Processor time of the server a call, in nanoseconds: reading, command, reply, AOF and replica.
    pub cpu_ns: f64,
    /// The least and the most of `kcalls` in all rounds.
    pub range: (f64, f64),
}

impl Cell {
    pub fn json(&self) -> Value {
        json!({
            "group": self.group, "keys": self.spread.name(), "durability": self.durability.name(),
            "case": self.case, "pipeline": self.depth, "kcalls_per_s": self.kcalls,
            "usec_per_call": self.usec, "server_cpu_ns_per_call": self.cpu_ns,
            "kcalls_per_s_least": self.range.0, "kcalls_per_s_most": self.range.1,
        })
    }
}

/// A case ready to run.
struct Row<'a> {
    case: &'a Case,
    call: Call,
    commands: Vec<String>,
    first_line: String,
}

struct Sample {
    kcalls: f64,
    usec: f64,
    cpu_ns: f64,
}

/// Measures all cases of `group` at all `depths`.
pub fn group(
    options: &Options,
    setup: &Setup,
    group: &Group,
    durability: Durability,
    depths: &[usize],
) -> Result<Vec<Cell>> {
    eprintln!("{}, {}, {}", group.title, group.spread.name(), durability.name());
    let mut server = Server::start(setup, durability)?;
    let mut load = Load::connect(&server.socket(), CONNECTIONS)?;
    let mut names: Names = scripts::ALL
        .iter()
        .map(|(name, script)| Ok((*name, server.ask(&[b"SCRIPT", b"LOAD", script.as_bytes()])?)))
        .collect::<Result<_>>()?;
    names.push(("RATE", group.spread.rate().to_owned()));
    let keys = match group.spread {
        Spread::Hot => 1,
        Spread::Random => options.keys / group.divide_keys,
    };
    let mut rows = Vec::new();
    for (index, case) in group.cases.iter().enumerate() {
        if case.needs == Needs::Peer && options.peer.is_none() || !options.wants(case.name) {
            continue;
        }
        load.fill(&case.fill_call(index, &names), keys)?;
        rows.push(Row {
            case,
            call: case.call(index, &names),
            commands: case.commands(),
            first_line: case.first_line(index, &names),
        });
    }
    let mut cells = Vec::new();
    for &depth in depths {
        let mut samples: Vec<Vec<Sample>> = rows.iter().map(|_| Vec::new()).collect();
        for round in 0..options.rounds {
            for (row, samples) in rows.iter().zip(&mut samples) {
                let mut aim = match group.spread {
                    Spread::Hot => Keys::Hot,
                    Spread::Random => Keys::Random { count: keys, seed: round as u64 },
                };
                samples.push(slice(options, &mut server, &mut load, row, depth, &mut aim)?);
            }
        }
        for (row, samples) in rows.iter().zip(&samples) {
            cells.push(cell(group, durability, row.case.name, depth, samples));
        }
    }
    Ok(cells)
}

fn slice(
    options: &Options,
    server: &mut Server,
    load: &mut Load,
    row: &Row,
    depth: usize,
    aim: &mut Keys,
) -> Result<Sample> {
    check(server, row)?;
    server.say("CONFIG RESETSTAT")?;
    let cpu_before_ns = server.cpu_ns()?;
    let done = load.run(&row.call, depth, aim, options.slice)?;
    let cpu_ns = server.cpu_ns()? - cpu_before_ns;
    let (commands, usec) = server.command_stats(&row.commands)?;
    check(server, row)?;
    // The last pipelines end after the watch was stopped: the server's counts include them.
    let calls = commands as f64 / row.call.commands as f64;
    Ok(Sample {
        kcalls: done.calls as f64 / done.elapsed.as_secs_f64() / 1000.0,
        usec: usec as f64 / calls,
        cpu_ns: cpu_ns as f64 / calls,
    })
}

/// A case that is meant to be admitted must be, and the other way round.
fn check(server: &mut Server, row: &Row) -> Result<()> {
    let Some(expected) = row.case.first else { return Ok(()) };
    let reply = server.say(&row.first_line)?;
    if reply.lines().next() == Some(expected) {
        return Ok(());
    }
    Err(format!("{}: {} was answered {reply:?}", row.case.name, row.first_line).into())
}

fn cell(
    group: &Group,
    durability: Durability,
    case: &'static str,
    depth: usize,
    samples: &[Sample],
) -> Cell {
    let of = |field: fn(&Sample) -> f64| median(samples.iter().map(field).collect());
    let kcalls = samples.iter().map(|sample| sample.kcalls);
    Cell {
        group: group.title,
        spread: group.spread,
        durability,
        case,
        depth,
        kcalls: of(|sample| sample.kcalls),
        usec: of(|sample| sample.usec),
        cpu_ns: of(|sample| sample.cpu_ns),
        range: (kcalls.clone().fold(f64::MAX, f64::min), kcalls.fold(0.0, f64::max)),
    }
}

/// The middle one; of an even number the lower of two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
