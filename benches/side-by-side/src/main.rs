//! Measures the limiter on a real server, side by side with the server's own commands, with limiters
//! in Lua, with a command that does nothing but open its key, and with a peer module.
//!
//! `make bench` runs it; docs/benchmarks.md says what the figures mean.

// Statistics are the only place where floating-point numbers and lossy casts are wanted.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, missing_docs)]

mod cases;
mod load;
mod measure;
mod report;
mod scale;
mod scripts;
mod server;

use server::{Durability, Setup, pin};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "redis-limiter-bench --server PROGRAM --module PATH --bare PATH [options]

  --peer PATH       a module that offers CL.THROTTLE, to compare with
  --quick           fewer rounds, keys and conditions
  --keys N          random keys (1000000)
  --rounds N        (7)
  --slice-ms N      how long each case runs in a round (300)
  --only TEXT       only cases whose name contains it (and the references)
  --parts LIST      of one-limit,commands,layers,aof,replica,scale (all)
  --scale LIST      numbers of keys (10000,100000,1000000)
  --config LINE     further server configuration, e.g. \"io-threads 2\"; may be repeated
  --json PATH       where results go, too";

/// What to measure.
pub struct Options {
    pub keys: u64,
    pub rounds: usize,
    pub slice: Duration,
    pub depths: Vec<usize>,
    pub scale: Vec<u64>,
    pub peer: Option<PathBuf>,
    only: Option<String>,
    parts: Vec<String>,
    server: PathBuf,
    module: PathBuf,
    bare: PathBuf,
    config: Vec<String>,
    json: Option<PathBuf>,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            keys: 1_000_000,
            rounds: 7,
            slice: Duration::from_millis(300),
            depths: vec![1, 16, 64],
            scale: vec![10_000, 100_000, 1_000_000],
            peer: None,
            only: None,
            parts: Vec::new(),
            server: PathBuf::new(),
            module: PathBuf::new(),
            bare: PathBuf::new(),
            config: Vec::new(),
            json: None,
        };
        while let Some(name) = args.next() {
            if name == "--quick" {
                options.keys = 100_000;
                options.rounds = 3;
                options.slice = Duration::from_millis(100);
                options.depths = vec![64];
                options.scale = vec![10_000, 100_000];
                continue;
            }
            let value = args.next().ok_or(USAGE)?;
            match name.as_str() {
                "--server" => options.server = value.into(),
                "--module" => options.module = value.into(),
                "--bare" => options.bare = value.into(),
                "--peer" => options.peer = Some(value.into()),
                "--keys" => options.keys = value.parse()?,
                "--rounds" => options.rounds = value.parse()?,
                "--slice-ms" => options.slice = Duration::from_millis(value.parse()?),
                "--only" => options.only = Some(value),
                "--parts" => options.parts = value.split(',').map(str::to_owned).collect(),
                "--scale" => {
                    options.scale =
                        value.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
                }
                "--config" => options.config.push(value),
                "--json" => options.json = Some(value.into()),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(options)
    }

    /// Whether a case is to be measured.
    pub fn wants(&self, case: &str) -> bool {
        let reference = case == cases::BARE || case == cases::SET;
        reference || self.only.as_ref().is_none_or(|only| case.contains(only.as_str()))
    }

    fn part(&self, name: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|part| part == name)
    }
}

fn main() -> ExitCode {
    match Options::read(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    pin(1);
    let mut modules: Vec<PathBuf> = options.peer.iter().cloned().collect();
    modules.extend([options.module.clone(), options.bare.clone()]);
    let setup = Setup { program: options.server.clone(), modules, config: options.config.clone() };
    let mut cells = Vec::new();
    let mut measure = |part, group: &cases::Group, durability, depths: &[usize]| -> Result<()> {
        if options.part(part) {
            cells.extend(measure::group(options, &setup, group, durability, depths)?);
        }
        Ok(())
    };
    for spread in [cases::Spread::Hot, cases::Spread::Random] {
        let one_limit = cases::one_limit(spread);
        measure("one-limit", &one_limit, Durability::None, &options.depths)?;
        measure("replica", &one_limit, Durability::Replica, &[64])?;
        measure("aof", &one_limit, Durability::Aof, &[64])?;
        measure("commands", &cases::commands(spread), Durability::None, &options.depths)?;
        measure("layers", &cases::layers(spread), Durability::None, &options.depths)?;
    }
    let mut rows = Vec::new();
    if options.part("scale") {
        rows.extend(scale::keys(options, &setup)?);
        rows.extend(scale::logs(options, &setup)?);
        rows.extend(scale::leases(options, &setup)?);
    }
    let mut bars = report::bars(&cells);
    bars.extend(report::scale_bars(&rows));
    println!("## {}", server_name(options));
    println!("{}", report::tables(&cells));
    if !rows.is_empty() {
        println!("### Many keys\n\n{}", report::key_table(&rows));
        println!("### Long logs, many leases\n\n{}", report::size_table(&rows));
    }
    println!("### Bars\n\n{}", report::bar_table(&bars));
    if let Some(path) = &options.json {
        let value = serde_json::json!({
            "server": server_name(options),
            "keys": options.keys, "rounds": options.rounds,
            "slice_ms": options.slice.as_secs_f64() * 1000.0,
            "cells": cells.iter().map(measure::Cell::json).collect::<Vec<_>>(),
            "scale": rows.iter().map(scale::Row::json).collect::<Vec<_>>(),
            "bars": bars.iter().map(|bar| serde_json::json!({
                "ratio": bar.what, "measured": bar.value, "bar": bar.bar, "met": bar.is_met(),
            })).collect::<Vec<_>>(),
        });
        std::fs::write(path, serde_json::to_string_pretty(&value)?)?;
    }
    Ok(())
}

/// `Redis server v=7.0.15`.
fn server_name(options: &Options) -> String {
    let output = Command::new(&options.server).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
