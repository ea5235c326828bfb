//! Commands written as one line, as in the reference: `con.five("RL.BUCKET k 1/1h 5")`.
#![allow(dead_code)]
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support::*;
use redis::{Cmd, Connection, ConnectionLike as _, RedisResult, Value};

/// 2026-03-15 12:00:00 UTC in Unix ms: the instant of the examples in the reference.
pub const NOON_MS: u64 = 1_773_576_000_000;

/// The largest amount.
pub const MAX: &str = "9007199254740991";

/// Asks for one command a line; words are split at blanks.
pub trait Lines {
    /// The outcome.
    fn try_ask(&mut self, line: &str) -> RedisResult<Value>;

    /// The reply.
    #[track_caller]
    fn ask(&mut self, line: &str) -> Value {
        match self.try_ask(line) {
            Ok(value) => value,
            Err(e) => panic!("{line}: {}", error_text(&e)),
        }
    }

    /// The five integers at the head of the reply.
    #[track_caller]
    fn five(&mut self, line: &str) -> [i64; 5] {
        five(&self.ask(line))
    }

    /// The five integers and the index of the deciding layer.
    #[track_caller]
    fn six(&mut self, line: &str) -> [i64; 6] {
        match self.ask(line) {
            Value::Array(items) if items.len() >= 6 => std::array::from_fn(|i| int(&items[i])),
            other => panic!("{line}: not six integers: {other:?}"),
        }
    }

    /// The integer reply.
    #[track_caller]
    fn number(&mut self, line: &str) -> i64 {
        int(&self.ask(line))
    }

    /// The text of the error that the line must be answered with.
    #[track_caller]
    fn error(&mut self, line: &str) -> String {
        match self.try_ask(line) {
            Ok(value) => panic!("{line}: no error but {value:?}"),
            Err(e) => error_text(&e),
        }
    }

    /// Lines with the five integers that each must be answered with, one after the other.
    #[track_caller]
    fn expect(&mut self, script: &[(&str, [i64; 5])]) {
        for (step, (line, answer)) in script.iter().enumerate() {
            assert_eq!(self.five(line), *answer, "step {step}: {line}");
        }
    }
}

impl Lines for Connection {
    fn try_ask(&mut self, line: &str) -> RedisResult<Value> {
        let mut command = Cmd::new();
        for word in line.split_ascii_whitespace() {
            command.arg(word);
        }
        self.req_command(&command).and_then(Value::extract_error)
    }
}

/// A server whose clock stands still at [`NOON_MS`] until the test moves it.
pub struct Still {
    pub server: Server,
    pub clock: Clock,
}

impl Still {
    #[track_caller]
    pub fn at_noon() -> Self {
        Self::at_ms(NOON_MS)
    }

    #[track_caller]
    pub fn at_ms(ms: u64) -> Self {
        Self::at_us(ms * 1000)
    }

    #[track_caller]
    pub fn at_us(us: u64) -> Self {
        let clock = Clock::new(us);
        let server = Server::builder().clock(&clock).start();
        Self { server, clock }
    }

    /// The retry law: the refused `line` is refused until 1 ms before the time that it promises,
    /// and admitted at it. Answers that time.
    #[track_caller]
    pub fn keeps_promise(&self, con: &mut Connection, line: &str) -> u64 {
        let refused = con.five(line);
        assert_eq!(refused[0], 0, "{line}: {refused:?} is no refusal");
        let retry_ms = u64::try_from(refused[3]).unwrap();
        assert!(retry_ms > 0, "{line}: {refused:?} promises no time");
        self.clock.advance_ms(retry_ms - 1);
        let early = con.five(line);
        assert_eq!((early[0], early[3]), (0, 1), "1 ms before its time: {line}: {refused:?}");
        self.clock.advance_ms(1);
        let due = con.five(line);
        assert!(due[0] >= 1, "at its time: {line}: {refused:?}, then {due:?}");
        retry_ms
    }
}
