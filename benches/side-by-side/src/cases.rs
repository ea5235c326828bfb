//! What is measured: groups of cases that are compared with each other, on one server at a time.
//!
//! In a command `@` stands for the key, which no two cases share, and `$NAME` for the hash of a script or
//! `$RATE` for how fast a bucket refills.

use crate::load::{Call, KEY};
use crate::scripts::Names;

/// The keys of a case: one that all calls go to, or random ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    Hot,
    Random,
}

impl Spread {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot key",
            Self::Random => "random keys",
        }
    }

    /// How fast a bucket refills: a hot one faster than anyone calls; a random one, which is called
    /// now and then, so slowly that its key lives meanwhile, with a burst that is never used up.
    pub const fn rate(self) -> &'static str {
        match self {
            Self::Hot => "4000000",
            Self::Random => "1/1m",
        }
    }
}

/// What must be there for a case to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// A module of somebody else that offers CL.THROTTLE.
    Peer,
}

/// One row: commands that are sent together and count as one call.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    pub needs: Needs,
    lines: Vec<&'static str>,
    /// Makes a key; the call itself unless told otherwise.
    fill: Option<&'static str>,
    /// What the first integer of the first reply must be; other replies are not looked at.
    pub first: Option<&'static str>,
}

impl Case {
    fn new(name: &'static str, lines: &[&'static str]) -> Self {
        Self { name, needs: Needs::Nothing, lines: lines.to_vec(), fill: None, first: None }
    }

    fn admitted(name: &'static str, lines: &[&'static str]) -> Self {
        Self { first: Some("1"), ..Self::new(name, lines) }
    }

    fn refused(name: &'static str, lines: &[&'static str]) -> Self {
        Self { first: Some("0"), ..Self::new(name, lines) }
    }

    /// CL.THROTTLE of a peer, which answers 0 for admitted.
    fn peer(name: &'static str, first: &'static str, line: &'static str) -> Self {
        Self { first: Some(first), needs: Needs::Peer, ..Self::new(name, &[line]) }
    }

    fn fill(self, line: &'static str) -> Self {
        Self { fill: Some(line), ..self }
    }

    /// The call, on the keys of case number `index`.
    pub fn call(&self, index: usize, names: &Names) -> Call {
        Call::new(&self.lines.iter().map(|line| keyed(line, index, names)).collect::<Vec<_>>())
    }

    /// What makes a key.
    pub fn fill_call(&self, index: usize, names: &Names) -> Call {
        match self.fill {
            Some(line) => Call::new(&[keyed(line, index, names)]),
            None => self.call(index, names),
        }
    }

    /// The first command of the call.
    pub fn first_line(&self, index: usize, names: &Names) -> String {
        keyed(self.lines.first().unwrap_or(&""), index, names)
    }

    /// The names of its commands as INFO has them.
    pub fn commands(&self) -> Vec<String> {
        let words = self.lines.iter().filter_map(|line| line.split_whitespace().next());
        let mut names: Vec<String> = words.map(str::to_ascii_lowercase).collect();
        names.sort();
        names.dedup();
        names
    }
}

fn keyed(line: &str, index: usize, names: &Names) -> String {
    let mut line = line.replace('@', &format!("{{k{index:02}:{KEY}}}"));
    for (name, text) in names {
        line = line.replace(&format!("${name}"), text);
    }
    line
}

/// Cases that are measured in turn on one server.
#[derive(Clone, Debug)]
pub struct Group {
    pub title: &'static str,
    pub spread: Spread,
    /// Of the keys that a run is asked for, one in so many is used: big values need memory.
    pub divide_keys: u64,
    pub cases: Vec<Case>,
}

pub const BARE: &str = "bare module command";
pub const BARE_SAME: &str = "bare, with RL.BUCKET's arguments and an expiry";
pub const SET: &str = "SET … PX";
pub const ADMITTED: &str = "RL.BUCKET admitted";
pub const REFUSED: &str = "RL.BUCKET refused";
pub const PEER_ADMITTED: &str = "CL.THROTTLE of the peer, admitted";
pub const PEER_REFUSED: &str = "CL.THROTTLE of the peer, refused";
pub const LUA_GCRA: &str = "Lua GCRA, admitted";
pub const TAKE_FOUR: &str = "RL.TAKE, 4 layers";
pub const TAKE_FOUR_DETAIL: &str = "RL.TAKE, 4 layers, DETAIL";
pub const FOUR_CALLS: &str = "4 calls of the same limits";

/// In every group: the least that a module can do, and a write of the server itself.
fn references() -> Vec<Case> {
    vec![
        Case::new(BARE, &["BARE.GET @"]).fill("BARE.SET @"),
        Case::new(SET, &["SET @ 01234567890123456789 PX 3600000"]),
    ]
}

/// What the bars compare, with the same limit in every implementation.
pub fn one_limit(spread: Spread) -> Group {
    let (peer, lua) = match spread {
        Spread::Hot => ("CL.THROTTLE @ 999999 4000000 1", "EVALSHA $GCRA 1 @ 1000000 4000000 1 1"),
        Spread::Random => ("CL.THROTTLE @ 999999 1 60", "EVALSHA $GCRA 1 @ 1000000 1 60 1"),
    };
    let mut cases = references();
    cases.extend([
        // What nobody can do without: the limit comes with the call, and its key expires.
        Case::new(BARE_SAME, &["BARE.GET @ 1/1d 1"]).fill("BARE.SET @ 1"),
        Case::new("bare, with all that an admission must do", &["BARE.CHARGE @ 1/1d 1"])
            .fill("BARE.SET @ 1"),
        Case::admitted(ADMITTED, &["RL.BUCKET @ $RATE 1000000"]),
        Case::refused(REFUSED, &["RL.BUCKET @ 1/1d 1"]),
        Case::peer(PEER_ADMITTED, "0", peer),
        Case::peer(PEER_REFUSED, "1", "CL.THROTTLE @ 0 1 86400"),
        Case::new("GET", &["GET @"]).fill("SET @ 01234567890123456789 PX 3600000"),
        Case::new("INCR", &["INCR @"]),
        Case::admitted(LUA_GCRA, &[lua]),
    ]);
    Group { title: "One limit", spread, divide_keys: 1, cases }
}

/// Every command on one limit.
pub fn commands(spread: Spread) -> Group {
    let (log, lua_bucket, lua_log) = match spread {
        Spread::Hot => (
            "RL.WINDOW @ 50ms 65536 LOG",
            "EVALSHA $BUCKET 1 @ 4000000 1000000 1",
            "EVALSHA $LOG 1 @ 50000 65536",
        ),
        Spread::Random => (
            "RL.WINDOW @ 1h 65536 LOG",
            "EVALSHA $BUCKET 1 @ 1 1000000 1",
            "EVALSHA $LOG 1 @ 3600000000 65536",
        ),
    };
    let mut cases = references();
    cases.extend([
        Case::admitted("RL.WINDOW SLIDING", &["RL.WINDOW @ 1h 1000000000"]),
        Case::refused("RL.WINDOW SLIDING, refused", &["RL.WINDOW @ 1d 1"]),
        Case::admitted("RL.WINDOW FIXED", &["RL.WINDOW @ 1h 1000000000 FIXED"]),
        Case::admitted("RL.WINDOW LOG", &[log]),
        Case::admitted("RL.QUOTA day", &["RL.QUOTA @ day 1000000000"]),
        Case::admitted("RL.QUOTA month, TZ", &["RL.QUOTA @ month 1000000000 TZ Europe/Berlin"]),
        Case::admitted("RL.PEEK of a bucket", &["RL.PEEK @ BUCKET 1/1d 1000000"])
            .fill("RL.BUCKET @ 1/1d 1000000"),
        // Somebody else holds a lease all the time.
        Case::admitted("RL.ACQUIRE + RL.RELEASE", &["RL.ACQUIRE @ 10 1m ID a", "RL.RELEASE @ a"])
            .fill("RL.ACQUIRE @ 10 1d ID b"),
        Case::admitted("Lua token bucket", &[lua_bucket]),
        Case::admitted("Lua sliding log", &[lua_log]),
    ]);
    Group { title: "Every command on one limit", spread, divide_keys: 1, cases }
}

/// Layers in one call, against the same limits in as many calls.
pub fn layers(spread: Spread) -> Group {
    let mut cases = references();
    cases.extend([
        Case::admitted("RL.TAKE, 1 layer", &["RL.TAKE @ BUCKET $RATE 1000000000"]),
        Case::admitted("1 call of the same limit", &["RL.BUCKET @ $RATE 1000000000"]),
        Case::admitted(
            "RL.TAKE, 2 layers",
            &["RL.TAKE @ BUCKET $RATE 1000000000 QUOTA month 1000000000"],
        ),
        Case::admitted(
            "2 calls of the same limits",
            &["RL.BUCKET @ $RATE 1000000000", "RL.QUOTA @ month 1000000000"],
        ),
        Case::admitted(
            TAKE_FOUR,
            &["RL.TAKE @ BUCKET $RATE 1000000000 WINDOW 1h 1000000000 QUOTA day 1000000000 \
               QUOTA month 1000000000"],
        ),
        Case::admitted(
            TAKE_FOUR_DETAIL,
            &["RL.TAKE @ DETAIL BUCKET $RATE 1000000000 WINDOW 1h 1000000000 QUOTA day 1000000000 \
               QUOTA month 1000000000"],
        ),
        Case::admitted(FOUR_CALLS, &EIGHT_CALLS[..4]),
        Case::admitted(
            "RL.TAKE, 8 layers",
            &["RL.TAKE @ BUCKET $RATE 1000000000 WINDOW 1h 1000000000 QUOTA day 1000000000 \
               QUOTA month 1000000000 BUCKET $RATE 1000000000 AS x WINDOW 1m 1000000000 FIXED \
               QUOTA day 1000000000 AS x QUOTA month 1000000000 AS x"],
        ),
        Case::admitted("8 calls of the same limits", EIGHT_CALLS),
        Case::refused(
            "RL.TAKE, 4 layers, refused",
            &["RL.TAKE @ BUCKET $RATE 1000000000 WINDOW 1d 1 QUOTA day 1000000000 \
               QUOTA month 1000000000"],
        ),
        Case::admitted(
            "RL.MTAKE, 2 keys",
            &["RL.MTAKE KEY @:a BUCKET $RATE 1000000000 KEY @:b QUOTA month 1000000000"],
        ),
        Case::admitted(
            "RL.MTAKE, 4 keys",
            &["RL.MTAKE KEY @:a BUCKET $RATE 1000000000 KEY @:b WINDOW 1h 1000000000 \
               KEY @:c QUOTA day 1000000000 KEY @:d QUOTA month 1000000000"],
        ),
    ]);
    Group { title: "Layers", spread, divide_keys: 10, cases }
}

const EIGHT_CALLS: &[&str] = &[
    "RL.BUCKET @ $RATE 1000000000",
    "RL.WINDOW @ 1h 1000000000",
    "RL.QUOTA @ day 1000000000",
    "RL.QUOTA @ month 1000000000",
    "RL.BUCKET @ $RATE 1000000000 AS x",
    "RL.WINDOW @ 1m 1000000000 FIXED",
    "RL.QUOTA @ day 1000000000 AS x",
    "RL.QUOTA @ month 1000000000 AS x",
];
