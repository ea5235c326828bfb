//! How cost and memory grow: with the number of keys, the length of a log, the number of leases.

use crate::load::{Call, KEY, Keys, Load};
use crate::measure::{CONNECTIONS, median};
use crate::server::{Durability, Server, Setup};
use crate::{Options, Result};
use redis_limiter_core::calendar::Calendar;
use redis_limiter_core::codec::encode_whole;
use redis_limiter_core::law::{Ask, Outcome};
use redis_limiter_core::limit::{Layer, Params};
use redis_limiter_core::state::View;
use redis_limiter_core::subject::Subject;
use redis_limiter_core::window::WindowMode;
use serde_json::{Value, json};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// One line of a table.
#[derive(Clone, Debug)]
pub struct Row {
    pub what: String,
    /// Keys, entries or leases.
    pub size: u64,
    pub usec: f64,
    pub cpu_ns: f64,
    /// Only of keys.
    pub storage: Option<Storage>,
}

/// What many keys take.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    pub bytes_per_key: f64,
    pub rdb_bytes_per_key: f64,
    pub save_s: f64,
    pub load_s: f64,
}

impl Row {
    pub fn json(&self) -> Value {
        let mut value = json!({
            "what": self.what, "size": self.size, "usec_per_call": self.usec,
            "server_cpu_ns_per_call": self.cpu_ns,
        });
        if let Some(storage) = self.storage {
            value["bytes_per_key"] = json!(storage.bytes_per_key);
            value["rdb_bytes_per_key"] = json!(storage.rdb_bytes_per_key);
            value["rdb_save_s"] = json!(storage.save_s);
            value["rdb_load_s"] = json!(storage.load_s);
        }
        value
    }
}

/// The same number of keys as plain strings and as limits.
pub fn keys(options: &Options, setup: &Setup) -> Result<Vec<Row>> {
    let mut kinds = vec![
        ("SET … PX", format!("SET k{KEY} 01234567890123456789 PX 86400000")),
        ("RL.BUCKET", format!("RL.BUCKET k{KEY} 1/1m 1440")),
        ("RL.WINDOW SLIDING", format!("RL.WINDOW k{KEY} 1d 1440")),
        ("RL.QUOTA", format!("RL.QUOTA k{KEY} month 1440000")),
    ];
    if options.peer.is_some() {
        kinds.push(("CL.THROTTLE of the peer", format!("CL.THROTTLE k{KEY} 1439 1 60")));
    }
    let mut rows = Vec::new();
    for &count in &options.scale {
        for (what, line) in &kinds {
            eprintln!("{what}, {count} keys");
            rows.push(keys_of(options, setup, what, line, count)?);
        }
    }
    Ok(rows)
}

fn keys_of(options: &Options, setup: &Setup, what: &str, line: &str, count: u64) -> Result<Row> {
    let call = Call::new(&[line.to_owned()]);
    let mut server = Server::start(setup, Durability::None)?;
    let mut load = Load::connect(&server.socket(), CONNECTIONS)?;
    let empty = server.info_number("memory", "used_memory")?;
    load.fill(&call, count)?;
    let full = server.info_number("memory", "used_memory")?;
    let stored = server.say("DBSIZE")?.parse::<u64>()?;
    let (usec, cpu_ns) = random_calls(options, &mut server, &mut load, &call, line, count)?;
    let start = Instant::now();
    server.say("SAVE")?;
    let save_s = start.elapsed().as_secs_f64();
    let rdb_bytes = server.rdb_bytes()?;
    drop(load);
    let (_server, load_s) = server.restart(setup)?;
    let per_key = |bytes: u64| bytes as f64 / stored as f64;
    let storage = Storage {
        bytes_per_key: per_key(full.saturating_sub(empty)),
        rdb_bytes_per_key: per_key(rdb_bytes),
        save_s,
        load_s,
    };
    Ok(Row { what: what.to_owned(), size: count, usec, cpu_ns, storage: Some(storage) })
}

/// Medians of time by commandstats (µs) and processor time (ns) a call.
fn random_calls(
    options: &Options,
    server: &mut Server,
    load: &mut Load,
    call: &Call,
    line: &str,
    count: u64,
) -> Result<(f64, f64)> {
    let mut keys = Keys::Random { count, seed: 1 };
    let (mut usecs, mut cpus) = (Vec::new(), Vec::new());
    let name = line.split(' ').next().unwrap_or_default().to_ascii_lowercase();
    for _ in 0..options.rounds {
        server.say("CONFIG RESETSTAT")?;
        let before_ns = server.cpu_ns()?;
        load.run(call, 64, &mut keys, options.slice)?;
        let cpu_ns = server.cpu_ns()? - before_ns;
        let (calls, usec) = server.command_stats(std::slice::from_ref(&name))?;
        usecs.push(usec as f64 / calls as f64);
        cpus.push(cpu_ns as f64 / calls as f64);
    }
    Ok((median(usecs), median(cpus)))
}

/// Calls on logs of several lengths.
pub fn logs(options: &Options, setup: &Setup) -> Result<Vec<Row>> {
    let mut server = Server::start(setup, Durability::None)?;
    let mut load = Load::connect(&server.socket(), CONNECTIONS)?;
    let mut rows = Vec::new();
    for entries in [10, 1_000, 65_536] {
        eprintln!("a log of {entries} entries");
        let key = format!("log{entries}");
        server.ask(&[b"RL.E", key.as_bytes(), &log_of(entries)?])?;
        for (what, line) in [
            ("RL.WINDOW LOG, refused", format!("RL.WINDOW {key} 1d {entries} LOG")),
            ("RL.WINDOW LOG, charged", format!("RL.WINDOW {key} 1d 65536 LOG FORCE")),
        ] {
            let call = Call::new(std::slice::from_ref(&line));
            let (usec, cpu_ns) = random_calls(options, &mut server, &mut load, &call, &line, 1)?;
            rows.push(Row { what: what.into(), size: entries, usec, cpu_ns, storage: None });
        }
    }
    Ok(rows)
}

/// The effect that makes a key with one log of so many entries in the last minutes.
fn log_of(entries: u64) -> Result<Vec<u8>> {
    const LENGTH_MS: u64 = 86_400_000;
    let now_us = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?;
    let params = Params::Window { mode: WindowMode::Log, length_ms: LENGTH_MS, limit: 65_536 };
    let layer = Layer { params, name: None, ask: Ask::whole(1) };
    let mut calendar = Calendar::new();
    let mut subject = None;
    for age_ms in (1..=entries).rev() {
        let at_us = now_us - age_ms * 1000;
        let view = View::new(subject.as_ref(), 0, &layer, at_us, &mut calendar);
        let admitted = Outcome::Admit { units: 1, wait_ms: 0 };
        let delta = view.charge(&layer, admitted).ok_or("nothing charged")?;
        Subject::apply(&mut subject, &[(layer.identity(), delta)], at_us)
            .map_err(|_| "an impossible log")?;
    }
    let mut bytes = Vec::new();
    encode_whole(&subject.ok_or("an empty log")?, &mut bytes);
    Ok(bytes)
}

/// ACQUIRE and RELEASE beside many holders.
pub fn leases(options: &Options, setup: &Setup) -> Result<Vec<Row>> {
    let mut server = Server::start(setup, Durability::None)?;
    let mut load = Load::connect(&server.socket(), CONNECTIONS)?;
    let mut rows = Vec::new();
    for holders in [10, 65_535] {
        eprintln!("{holders} leases");
        let fill = Call::new(&[format!("RL.ACQUIRE leases{holders} 65536 1d ID i{KEY}")]);
        load.fill(&fill, holders)?;
        let lines = [
            format!("RL.ACQUIRE leases{holders} 65536 1d ID mine"),
            format!("RL.RELEASE leases{holders} mine"),
        ];
        let call = Call::new(&lines);
        for line in &lines {
            let (usec, cpu_ns) = random_calls(options, &mut server, &mut load, &call, line, 1)?;
            let what = line.split(' ').next().unwrap_or_default().to_owned();
            // Processor time is that of both together.
            rows.push(Row { what, size: holders, usec, cpu_ns, storage: None });
        }
    }
    Ok(rows)
}
