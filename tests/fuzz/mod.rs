//! What the fuzzer sends.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

mod check;

pub use check::check;

use crate::support::{ReplicaTap, Server};
use crate::workload::{Call, Rng, Workload, show, try_call};
use redis::{Connection, Value};

/// Amounts, durations, rates and so on: mostly right ones first.
const AMOUNTS: &[&str] = &[
    "1",
    "2",
    "3",
    "5",
    "10",
    "0",
    "100",
    "65536",
    "65537",
    "9007199254740991",
    "9007199254740992",
    "18446744073709551616",
    "-1",
    "+1",
    "01",
    "1e9",
    "nan",
    "",
    "0x10",
    " 1",
];
const DURATIONS: &[&str] = &[
    "20ms",
    "1s",
    "30s",
    "1m",
    "1h",
    "1d",
    "366d",
    "16ms",
    "15ms",
    "1ms",
    "52w",
    "0s",
    "367d",
    "30",
    "1M",
    "s",
    "999999999999999999999ms",
    "-1s",
];
const RATES: &[&str] = &[
    "1",
    "10",
    "0.5",
    "300/1m",
    "100/m",
    "1/366d",
    "1000000000",
    "10/100ms",
    "0.000001",
    "1000000001",
    "0",
    "1/367d",
    "1.",
    ".5",
    "1/",
    "inf",
    "9007199254740991/366d",
];
const PERIODS: &[&str] = &["minute", "hour", "day", "week", "month", "year", "MONTH", "decade"];
const ZONES: &[&str] = &["UTC", "Europe/Berlin", "Pacific/Apia", "Asia/Kolkata", "No/Where", ""];
const ANCHORS: &[&str] = &["1", "15", "31", "sun", "mon", "0", "32", "xyz"];
const NAMES: &[&str] = &["a", "b", "c", "\u{0}\u{ff}", ""];
const WORDS: &[&str] = &[
    "AS", "COST", "LEAVE", "FORCE", "UPTO", "MAXWAIT", "TZ", "ANCHOR", "ID", "NX", "SLIDING",
    "FIXED", "LOG", "DETAIL", "AGE", "KEY", "BUCKET", "WINDOW", "QUOTA", "LEASE", "",
];
const KEYS: [&[u8]; 5] = [b"k0", b"k1", b"k2", b"", b"\x00\xff\r\n%s"];

/// An endless sequence of commands. One seed, one sequence, as long as the server answers alike.
pub struct Fuzzer {
    rng: Rng,
    valid: Workload,
    dumps: Vec<Vec<u8>>,
    effects: Vec<Vec<u8>>,
}

impl Fuzzer {
    /// A fuzzer that knows nothing yet.
    pub fn new(seed: u64) -> Self {
        let mut valid = Workload::new(seed);
        valid.keys = KEYS.map(<[u8]>::to_vec).to_vec();
        Self { rng: Rng::new(seed ^ 0x5eed), valid, dumps: Vec::new(), effects: Vec::new() }
    }

    /// Watches how a server replicates, to have effects to mutate.
    pub fn learn_effects(&mut self, server: &Server) {
        let mut tap = ReplicaTap::attach(server);
        let mut con = server.connection();
        for _ in 0..300 {
            try_call(&mut con, &self.valid.call()).unwrap();
        }
        let effects = tap.commands(server).into_iter().filter(|effect| effect[0] == b"RL.E");
        self.effects = effects.map(|effect| effect[2].clone()).collect();
    }

    /// Keeps what DUMP answered.
    pub fn learn(&mut self, call: &Call, reply: &Value) {
        if let (b"DUMP", Value::BulkString(dump)) = (call[0].as_slice(), reply) {
            if self.dumps.len() < 50 {
                self.dumps.push(dump.clone());
            } else {
                let old = self.below(50);
                self.dumps[old].clone_from(dump);
            }
        }
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.rng.below(n as u64)).unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        let n = self.below(KEYS.len());
        KEYS[n].to_vec()
    }

    /// Mostly one of the first words, which are right ones.
    fn word(&mut self, words: &[&str]) -> Vec<u8> {
        let few = if self.rng.one_in(25) { words.len() } else { words.len().min(6) };
        words[self.below(few)].as_bytes().to_vec()
    }

    /// The next command.
    pub fn call(&mut self) -> Call {
        let mut call = match self.rng.below(100) {
            0..30 => self.valid.call(),
            30..55 => self.single(),
            55..70 => self.layered(),
            70..75 => self.forged(),
            75..80 => vec![b"DUMP".to_vec(), self.key()],
            _ => return self.server_command(),
        };
        if self.rng.one_in(10) {
            self.mutate(&mut call);
        }
        call
    }

    fn mutate(&mut self, call: &mut Call) {
        let at = 1 + self.below(call.len());
        match self.rng.below(5) {
            0 if at < call.len() => _ = call.remove(at),
            1 if at < call.len() => call.insert(at, call[at].clone()),
            2 if at + 1 < call.len() => call.swap(at, at + 1),
            3 if at < call.len() => self.flip(&mut call[at]),
            _ => {
                let words = [WORDS, AMOUNTS, DURATIONS, RATES][self.below(4)];
                let word = words[self.below(words.len())].as_bytes().to_vec();
                call.insert(at.min(call.len()), word);
            }
        }
    }

    /// Changes some bytes.
    fn flip(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            let byte = u8::try_from(self.rng.below(256)).unwrap();
            match self.rng.below(4) {
                0 if at < bytes.len() => _ = bytes.remove(at),
                1 => bytes.insert(at, byte),
                2 if at < bytes.len() => bytes[at] ^= 1 << (byte & 7),
                _ if at < bytes.len() => bytes[at] = byte,
                _ => bytes.truncate(at / 2),
            }
        }
    }

    fn options(&mut self, call: &mut Call, options: &[(&str, &[&str])]) {
        while self.rng.one_in(3) {
            let (name, values) = options[self.below(options.len())];
            call.push(name.as_bytes().to_vec());
            if !values.is_empty() {
                call.push(self.word(values));
            }
        }
    }

    fn single(&mut self) -> Call {
        let name = [
            "RL.BUCKET",
            "RL.WINDOW",
            "RL.QUOTA",
            "RL.ACQUIRE",
            "RL.RELEASE",
            "RL.RENEW",
            "RL.RESET",
            "RL.INFO",
        ][self.below(8)];
        let mut call = vec![name.as_bytes().to_vec(), self.key()];
        match name {
            "RL.RELEASE" => call.push(self.word(NAMES)),
            "RL.RENEW" => call.extend([self.word(NAMES), self.word(DURATIONS)]),
            "RL.INFO" => {}
            "RL.RESET" => {
                self.limit(&mut call, false);
            }
            "RL.ACQUIRE" => {
                call.extend([self.word(AMOUNTS), self.word(DURATIONS)]);
                self.options(&mut call, &[("ID", NAMES), ("NX", &[]), ("AS", NAMES)]);
            }
            _ => {
                let first = match name {
                    "RL.BUCKET" => RATES,
                    "RL.WINDOW" => DURATIONS,
                    _ => PERIODS,
                };
                call.extend([self.word(first), self.word(AMOUNTS)]);
                if self.rng.one_in(2) {
                    call.push(self.word(AMOUNTS));
                }
                self.options(
                    &mut call,
                    &[
                        ("AS", NAMES),
                        ("FORCE", &[]),
                        ("UPTO", &[]),
                        ("MAXWAIT", DURATIONS),
                        ("LEAVE", AMOUNTS),
                        ("TZ", ZONES),
                        ("ANCHOR", ANCHORS),
                        ("LOG", &[]),
                        ("FIXED", &[]),
                    ],
                );
            }
        }
        call
    }

    /// `BUCKET 1 1`, or the identity alone.
    fn limit(&mut self, call: &mut Call, capacity: bool) {
        let kind = ["BUCKET", "WINDOW", "QUOTA", "LEASE"][self.below(4)];
        call.push(kind.as_bytes().to_vec());
        let first: &[&str] = match kind {
            "BUCKET" if capacity => RATES,
            "WINDOW" => DURATIONS,
            "QUOTA" => PERIODS,
            "LEASE" if capacity => AMOUNTS,
            _ => &[],
        };
        if !first.is_empty() {
            call.push(self.word(first));
        }
        if capacity {
            call.push(self.word(if kind == "LEASE" { DURATIONS } else { AMOUNTS }));
            if kind == "LEASE" {
                call.extend([b"ID".to_vec(), self.word(NAMES)]);
            }
        }
        if kind == "WINDOW" && self.rng.one_in(2) {
            call.push(self.word(&["LOG", "FIXED", "SLIDING"]));
        }
    }

    fn layered(&mut self) -> Call {
        let form = ["TAKE", "PEEK", "REFUND"][self.below(3)];
        let many = self.rng.one_in(3);
        let mut call = vec![format!("RL.{}{form}", if many { "M" } else { "" }).into_bytes()];
        if !many {
            call.push(self.key());
        }
        self.options(
            &mut call,
            &[("COST", AMOUNTS), ("DETAIL", &[]), ("FORCE", &[]), ("AGE", DURATIONS)],
        );
        for _ in 0..if many { 1 + self.below(3) } else { 1 } {
            if many {
                call.extend([b"KEY".to_vec(), self.key()]);
            }
            let most = if self.rng.one_in(50) { 40 } else { 4 };
            for _ in 0..=self.below(most) {
                self.limit(&mut call, true);
                self.options(&mut call, &[("AS", NAMES), ("COST", AMOUNTS), ("LEAVE", AMOUNTS)]);
            }
        }
        call
    }

    /// RESTORE and RL.E with mutated bytes.
    fn forged(&mut self) -> Call {
        let key = self.key();
        if self.rng.one_in(2) && !self.dumps.is_empty() {
            let n = self.below(self.dumps.len());
            let mut dump = self.dumps[n].clone();
            // The type and the module's id stay: what other types do with forged bytes is not ours.
            if dump.first() == Some(&7) && dump.len() > 24 {
                let mut body = dump[14..dump.len() - 10].to_vec();
                let version = dump[dump.len() - 10..dump.len() - 8].to_vec();
                self.flip(&mut body);
                dump.truncate(14);
                dump.extend_from_slice(&body);
                dump.extend_from_slice(&version);
                let sum = crc64(&dump);
                dump.extend_from_slice(&sum.to_le_bytes());
            }
            let ttl = self.word(&["0", "1", "1000", "100000"]);
            return vec![b"RESTORE".to_vec(), key, ttl, dump, b"REPLACE".to_vec()];
        }
        let n = self.below(self.effects.len());
        let mut blob = self.effects[n].clone();
        if !self.rng.one_in(3) {
            self.flip(&mut blob);
        }
        vec![b"RL.E".to_vec(), key, blob]
    }

    fn server_command(&mut self) -> Call {
        let templates = [
            "CL.THROTTLE @ 9 1 60",
            "CL.THROTTLE @ 1 1000000000 1 2",
            "CL.THROTTLE @ 9 1 9223372036",
            "CL.THROTTLE @ 9 1 9223372036 -1",
            "CL.THROTTLE @ -1 1 60 x",
            "CL.THROTTLE @ 9007199254740991 1 9223372036854775807 9007199254740991",
            "SET @ 1000000",
            "SET @ x PX 50",
            "DEL @",
            "UNLINK @ @",
            "EXPIRE @ 1",
            "PEXPIRE @ 20",
            "PEXPIREAT @ 9223372036854775807",
            "EXPIREAT @ 1",
            "PERSIST @",
            "PERSIST @",
            "RENAME @ @",
            "RENAMENX @ @",
            "COPY @ @ REPLACE",
            "COPY @ @ DB 1",
            "MOVE @ 1",
            "SWAPDB 0 1",
            "SELECT 1",
            "SELECT 0",
            "SELECT 0",
            "FLUSHDB ASYNC",
            "CONFIG SET maxmemory 1",
            "CONFIG SET maxmemory 0",
            "CONFIG SET maxmemory 0",
            "CONFIG SET maxmemory-policy noeviction",
            "CONFIG SET maxmemory-policy allkeys-lru",
            "CONFIG SET maxmemory-policy volatile-ttl",
            "CONFIG SET maxmemory-policy allkeys-lfu",
            "CONFIG GET limiter.*",
            "CONFIG SET limiter.cl-throttle no",
            "CONFIG SET lazyfree-lazy-user-del yes",
            "CONFIG SET lazyfree-lazy-user-del no",
            "INFO modules",
            "TYPE @",
            "SCAN 0 TYPE rl-limits",
            "OBJECT ENCODING @",
            "OBJECT IDLETIME @",
            "MEMORY USAGE @",
            "DEBUG DIGEST-VALUE @",
            "TOUCH @",
            "PTTL @",
            "GET @",
            "APPEND @ x",
            "RPUSH @ x",
            "MULTI",
            "EXEC",
            "EXEC",
            "DISCARD",
            "WATCH @",
            "UNWATCH",
            "SORT @",
            "COMMAND GETKEYS RL.MTAKE KEY @ BUCKET 1 1 KEY @ QUOTA",
        ];
        let text = match self.rng.below(400) {
            0 => "FLUSHALL",
            // Not DEBUG RELOAD: it drops what has expired and does not tell replicas.
            1 => "SAVE",
            _ => self.rng.pick(&templates),
        };
        if self.rng.one_in(30) {
            let script = "return redis.pcall(unpack(ARGV))";
            let mut call: Call = ["EVAL", script, "0"].map(|w| w.as_bytes().to_vec()).to_vec();
            call.extend(self.single());
            return call;
        }
        let words = text.split(' ').map(|w| if w == "@" { self.key() } else { w.into() });
        words.collect()
    }
}

/// One connection, and what it has queued in MULTI.
pub struct Session {
    pub con: Connection,
    queued: Option<Vec<Call>>,
}

impl Session {
    /// Nothing is queued.
    pub const fn new(con: Connection) -> Self {
        Self { con, queued: None }
    }

    /// Whether a reply, and with EXEC each one in it, is one that its command may have. `answered` is
    /// told of each command with its reply.
    pub fn check(
        &mut self,
        call: &Call,
        reply: &Value,
        answered: &mut impl FnMut(&Call, &Value),
    ) -> Result<(), String> {
        check(call, reply)?;
        let name = call[0].to_ascii_uppercase();
        match (name.as_slice(), reply, &mut self.queued) {
            (_, Value::SimpleString(text), Some(queued)) if text == "QUEUED" => {
                queued.push(call.clone());
            }
            (b"MULTI", Value::Okay, queued) => *queued = Some(Vec::new()),
            (b"EXEC", Value::Array(replies), queued) => {
                answered(call, reply);
                let queued = queued.take().unwrap_or_default();
                if queued.len() != replies.len() {
                    return Err(format!("{} replies to {} calls", replies.len(), queued.len()));
                }
                for (call, reply) in queued.iter().zip(replies) {
                    check(call, reply).map_err(|why| format!("{why}: {}", show(call)))?;
                    answered(call, reply);
                }
            }
            (b"EXEC" | b"DISCARD", _, queued) => *queued = None,
            _ => answered(call, reply),
        }
        Ok(())
    }
}

/// The checksum of a DUMP payload (CRC-64/Jones).
fn crc64(bytes: &[u8]) -> u64 {
    let mut crc = 0_u64;
    for &byte in bytes {
        crc ^= u64::from(byte);
        for _ in 0..8 {
            // 0xad93d23594c935a9, bits reversed.
            crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0x95ac_9329_ac4b_c9b5 };
        }
    }
    crc
}
