//! Forged RESTORE payloads and forged effects: refused, or a value that works. Never a crash.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use redis::{Connection, Value};
use support::*;

/// The checksum at a payload's end: CRC-64/Jones, as the servers compute it.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0x95ac_9329_ac4b_c9b5 } else { crc >> 1 }
        })
    })
}

#[test]
fn the_checksum_is_right() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}

/// A payload in parts: the value's head as the server writes it (type, module, up to the start of
/// what the module wrote), the module's own bytes, and the end.
struct Payload {
    head: Vec<u8>,
    body: Vec<u8>,
    version: [u8; 2],
}

impl Payload {
    /// Takes a DUMP apart. The value is one string of less than 16 KiB, uncompressed.
    fn of(dump: &[u8]) -> Self {
        let (rest, crc) = dump.split_at(dump.len() - 8);
        assert_eq!(crc64(rest).to_le_bytes(), crc, "the server's own checksum");
        let (value, version) = rest.split_at(rest.len() - 2);
        // Type (1 byte), module id (9), then opcodes: a string is 5, length, bytes; 0 is the end.
        let (head, value) = value.split_at(10);
        let (&end, value) = value.split_last().unwrap();
        assert_eq!((head[0], value[0], end), (7, 5, 0), "{}", escape(dump));
        let (length, skip) = match value[1] >> 6 {
            0 => (usize::from(value[1] & 0x3f), 2),
            1 => (usize::from(value[1] & 0x3f) << 8 | usize::from(value[2]), 3),
            _ => panic!("{}", escape(dump)),
        };
        let body = value[skip..].to_vec();
        assert_eq!(body.len(), length, "{}", escape(dump));
        Self { head: head.to_vec(), body, version: version.try_into().unwrap() }
    }

    /// A payload with another body.
    fn with(&self, body: &[u8]) -> Vec<u8> {
        let mut value = vec![5];
        match u8::try_from(body.len()) {
            Ok(length @ 0..64) => value.push(length),
            _ => value.extend(u16::try_from(body.len() | 0x4000).unwrap().to_be_bytes()),
        }
        value.extend(body);
        value.push(0);
        self.with_value(&value)
    }

    /// A payload with other opcodes.
    fn with_value(&self, value: &[u8]) -> Vec<u8> {
        let mut payload = [&self.head, value, &self.version].concat();
        payload.extend(crc64(&payload).to_le_bytes());
        payload
    }
}

/// Every variant of `bytes` that differs in one bit, is cut, is longer, or has a part twice.
fn variants(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut variant = bytes.to_vec();
            variant[at] ^= 1 << bit;
            all.push(variant);
        }
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut variant = bytes.to_vec();
            variant[at] = byte;
            all.push(variant);
        }
        all.push(bytes[..at].to_vec());
        all.push(bytes[at..].to_vec());
        all.push([&bytes[..at], &bytes[at + 1..]].concat());
        all.push([&bytes[..at], &[0xff; 9], &bytes[at..]].concat());
        all.push([&bytes[..=at], &bytes[at / 2..]].concat());
    }
    all.push([bytes, &[0]].concat());
    all.push([bytes, bytes].concat());
    all.push(Vec::new());
    all
}

/// Calls that fill `k` in all ways.
const FILLS: &[&[&str]] = &[
    &["RL.BUCKET k 1/1h 5 2"],
    &["RL.BUCKET k 7/9s 9007199254740991 9007199254740991 AS name"],
    &["RL.WINDOW k 1m 9 3", "RL.WINDOW k 1d 9 2 FIXED AS x"],
    &["RL.WINDOW k 100ms 9 1 LOG", "RL.WINDOW k 1h 9 2 LOG", "RL.WINDOW k 1h 9 3 LOG"],
    &["RL.QUOTA k month 9", "RL.QUOTA k day 9 3 TZ Asia/Tokyo AS q"],
    &["RL.ACQUIRE k 9 1h ID a", "RL.ACQUIRE k 9 2h 3 ID b", "RL.ACQUIRE k 9 1h AS z"],
    &["RL.TAKE k COST 2 BUCKET 1/1h 5 WINDOW 1m 9 WINDOW 1h 9 LOG QUOTA year 9 LEASE 9 1h ID c"],
];

/// Uses `key` in every way: if the value is a lie, this is where it shows.
fn exercise(con: &mut Connection, key: &str) {
    for line in [
        "RL.INFO k",
        "RL.PEEK k DETAIL BUCKET 1 5 WINDOW 1m 5 WINDOW 1h 5 LOG QUOTA month 5 LEASE 5 1s",
        "DEBUG DIGEST-VALUE k",
        "MEMORY USAGE k",
        "RL.BUCKET k 1/1h 5",
        "RL.WINDOW k 1m 5 FORCE",
        "RL.WINDOW k 1h 5 LOG FORCE",
        "RL.WINDOW k 1d 5 FIXED AS x FORCE",
        "RL.QUOTA k month 5 FORCE",
        "RL.ACQUIRE k 9 1s ID d",
        "RL.RENEW k a 1s",
        "RL.RELEASE k b c d",
        "RL.REFUND k COST 9 BUCKET 1 5 WINDOW 1m 5 WINDOW 1h 5 LOG QUOTA month 5",
        "RL.INFO k",
        "DUMP k",
        "COPY k copy REPLACE",
        "RL.RESET k LEASE",
    ] {
        let mut words: Vec<_> = line.split(' ').collect();
        let at = words.iter().position(|word| *word == "k").unwrap();
        words[at] = key;
        // Too large an amount or too many limits may be an error; nothing else.
        if let Err(e) = con.try_ask(&words.join(" ")) {
            let error = error_text(&e);
            let known =
                ["ERR the charge would lift", "ERR a key holds at most 64", "ERR the id is held"];
            assert!(known.iter().any(|text| error.starts_with(text)), "{line}: {error}");
        }
    }
}

fn restore(con: &mut Connection, key: &str, payload: &[u8]) -> Result<(), String> {
    let restored = try_cmd!(con, "RESTORE", key, 0, payload, "REPLACE");
    restored.map(drop).map_err(|e| error_text(&e))
}

fn fill(con: &mut Connection, lines: &[&str]) {
    con.ask("DEL k");
    for line in lines {
        con.ask(line);
        // So that a log has several entries.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn forged_payloads_are_refused_or_work() {
    let server = Server::builder().config("rdbcompression no").start();
    let mut con = server.connection();
    let (mut refused, mut accepted) = (0, 0);
    for lines in FILLS {
        fill(&mut con, lines);
        let dumped = cmd!(con, "DUMP", "k");
        let Value::BulkString(dump) = &dumped else { panic!("{dumped:?}") };
        let payload = Payload::of(dump);
        assert_eq!(&payload.with(&payload.body), dump);
        restore(&mut con, "forged", dump).unwrap();
        assert_eq!(cmd!(con, "DUMP", "forged"), dumped);
        let before = server.digest("k");
        for body in variants(&payload.body) {
            match restore(&mut con, "forged", &payload.with(&body)) {
                Err(error) => {
                    assert!(error.starts_with("ERR Bad data format"), "{error}");
                    refused += 1;
                }
                Ok(()) => {
                    // What is accepted is stored as such, byte for byte.
                    let Value::BulkString(again) = cmd!(con, "DUMP", "forged") else { panic!() };
                    assert_eq!(escape(&Payload::of(&again).body), escape(&body));
                    exercise(&mut con, "forged");
                    accepted += 1;
                }
            }
        }
        assert_eq!(server.digest("k"), before);
    }
    assert!(refused > 1000 && accepted > 100, "{refused} refused, {accepted} accepted");
    assert_eq!(cmd!(con, "PING"), Value::SimpleString("PONG".into()));
    let log = server.log();
    assert!(!log.contains("internal error") && !log.contains("panic"), "{log}");
}

/// Names, ids and keys behind a right checksum stay out of the log, however talkative it is.
#[test]
fn what_is_refused_is_not_logged() {
    let server = Server::builder().config("rdbcompression no").config("loglevel debug").start();
    let mut con = server.connection();
    con.ask("RL.BUCKET k 1/1h 5 2 AS canary7f3a");
    con.ask("RL.ACQUIRE k 5 1h ID canary7f3a AS canary7f3a");
    let Value::BulkString(dump) = cmd!(con, "DUMP", "k") else { panic!() };
    let payload = Payload::of(&dump);
    let mut refused = 0;
    for body in variants(&payload.body) {
        refused += u32::from(restore(&mut con, "canary7f3a", &payload.with(&body)).is_err());
        let blob = [&[0][..], &body].concat();
        refused += u32::from(try_cmd!(con, "RL.E", "canary7f3a", blob).is_err());
    }
    assert!(refused > 500, "{refused} refused");
    let log = server.log();
    assert!(log.contains("a stored limit is not valid") && !log.contains("canary"), "{log}");
}

#[test]
fn forged_opcodes_are_refused() {
    let server = Server::builder().config("rdbcompression no").start();
    let mut con = server.connection();
    fill(&mut con, FILLS[6]);
    let Value::BulkString(dump) = cmd!(con, "DUMP", "k") else { panic!() };
    let payload = Payload::of(&dump);
    for value in [
        &b""[..],
        b"\0",
        b"\x05",
        b"\x05\x00\x00",
        b"\x05\x01",
        b"\x05\x01a\x05\x01b\x00",
        b"\x01\x07\x00",
        b"\x02\x07\x00",
        b"\x03\0\0\0\0\x00",
        b"\x04\0\0\0\0\0\0\0\0\x00",
        b"\x05\xc0\x07\x00",
        b"\x05\x81\x00\x00\x00\x00\xff\xff\xff\xff\x00",
        b"\x05\x80\x7f\xff\xff\xff\x00",
        b"\x07\x00",
        b"\xff\xff",
    ] {
        let error = restore(&mut con, "forged", &payload.with_value(value)).unwrap_err();
        assert!(error.starts_with("ERR Bad data format"), "{}: {error}", escape(value));
    }
    // Another version of the type's encoding.
    for version in [1_u8, 2, 0x3f] {
        let mut other = Payload::of(&dump);
        let last = other.head.len() - 1;
        other.head[last] ^= version;
        let error = restore(&mut con, "forged", &other.with(&other.body)).unwrap_err();
        assert!(error.starts_with("ERR Bad data format"), "{error}");
    }
    assert_eq!(con.number("EXISTS forged"), 0);
}

/// Every kind of effect, as the server itself sends them.
fn effects(server: &Server) -> Vec<Vec<u8>> {
    let mut con = server.connection();
    let mut tap = ReplicaTap::attach(server);
    for lines in FILLS {
        fill(&mut con, lines);
    }
    for line in [
        "RL.RENEW k c 2h",
        "RL.REFUND k COST 1 BUCKET 1/1h 5 WINDOW 1m 9 WINDOW 1h 9 LOG QUOTA year 9",
        "RL.RESET k WINDOW 1m",
        "RL.RELEASE k c",
        "RL.RESET k QUOTA year",
        "RL.RESET k WINDOW 1h LOG",
        "RL.RESET k BUCKET",
    ] {
        con.ask(line);
    }
    let sent = tap.commands(server).into_iter();
    sent.filter(|words| words[0].eq_ignore_ascii_case(b"RL.E"))
        .map(|words| words[2].clone())
        .collect()
}

#[test]
fn forged_effects_are_refused_or_work() {
    let server = Server::start();
    let effects = effects(&server);
    assert!(effects.len() > 15, "{}", effects.len());
    let mut con = server.connection();
    let (mut refused, mut applied) = (0, 0);
    let mut fills = FILLS.iter().cycle();
    // Each on a key that is missing, foreign, or holds something, in turn.
    let mut keys = ["missing", "foreign", "k", "k"].into_iter().cycle();
    for variant in effects.iter().flat_map(|effect| variants(effect)) {
        let key = keys.next().unwrap();
        match key {
            "missing" => drop(con.ask("DEL missing")),
            "foreign" => drop(con.ask("SET foreign 1 EX 1000")),
            _ if con.number("EXISTS k") == 0 => {
                fills.next().unwrap().iter().for_each(|line| drop(con.ask(line)));
            }
            _ => {}
        }
        let before = state(&mut con, key);
        match try_cmd!(con, "RL.E", key, &variant) {
            Ok(_) => {
                con.ask(&format!("RL.INFO {key}"));
                if applied % 16 < 1 {
                    exercise(&mut con, key);
                }
                applied += 1;
            }
            Err(e) => {
                let error = error_text(&e);
                assert!(error.starts_with("ERR not a valid effect"), "{error}");
                assert_eq!(state(&mut con, key), before, "{key}: {}", escape(&variant));
                refused += 1;
            }
        }
    }
    assert!(refused > 1000 && applied > 1000, "{refused} refused, {applied} applied");
    let log = server.log();
    assert!(!log.contains("internal error") && !log.contains("panic"), "{log}");
}

/// Digest and expiry.
fn state(con: &mut Connection, key: &str) -> (Value, Value) {
    (cmd!(con, "DEBUG", "DIGEST-VALUE", key), cmd!(con, "PEXPIRETIME", key))
}

/// An effect that is well-formed, but not possible on what is stored.
#[test]
fn an_impossible_effect_changes_nothing() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let mut tap = ReplicaTap::attach(&still.server);
    con.ask("RL.WINDOW k 16s 99");
    let old = tap.commands(&still.server)[0][2].clone();
    still.clock.advance_ms(5_000);
    con.ask("RL.WINDOW k 16s 99");
    con.ask("PEXPIRE k 100000000");
    let before = state(&mut con, "k");
    // It charges an older sub-window than the newest.
    match try_cmd!(con, "RL.E", "k", &old) {
        Ok(_) => {}
        Err(e) => {
            assert!(error_text(&e).starts_with("ERR not a valid effect"));
            assert_eq!(state(&mut con, "k"), before);
        }
    }
    // 65 limits, one effect after the other.
    con.ask("DEL k full");
    for n in 0..64 {
        con.ask(&format!("RL.BUCKET full 1/1h 5 1 AS b{n}"));
    }
    con.ask("PEXPIRE full 100000000");
    tap.commands(&still.server);
    con.ask("RL.BUCKET k 1/1h 5");
    let more = tap.commands(&still.server)[0][2].clone();
    let before = state(&mut con, "full");
    let error = error_text(&try_cmd!(con, "RL.E", "full", &more).unwrap_err());
    assert!(error.starts_with("ERR not a valid effect"), "{error}");
    assert_eq!(state(&mut con, "full"), before);
    // Without a lease there is nothing to renew.
    con.ask("RL.ACQUIRE l 5 1h ID a");
    tap.commands(&still.server);
    con.ask("RL.RENEW l a 2h");
    let renewal = tap.commands(&still.server)[0][2].clone();
    con.ask("SET foreign 1");
    for key in ["missing", "foreign"] {
        let before = state(&mut con, key);
        if let Err(e) = try_cmd!(con, "RL.E", key, &renewal) {
            assert!(error_text(&e).starts_with("ERR not a valid effect"));
            assert_eq!(state(&mut con, key), before, "{key}");
        }
    }
}
