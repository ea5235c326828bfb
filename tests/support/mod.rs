//! What every integration test uses: real servers, clients, replicas and a clock to turn.
//!
//! ```ignore
//! mod support;
//! use support::*;
//!
//! #[test]
//! fn admits_the_first_call() {
//!     let server = Server::start();
//!     let mut con = server.connection();
//!     assert_eq!(ints(&cmd!(con, "RL.BUCKET", "k", "1/1h", 5)), [1, 5, 4, 0, 3_600_000]);
//!     assert_eq!(err!(con, "RL.BUCKET", "k", "nan", 5), "ERR …");
//! }
//! ```
//!
//! The server binary is named by `RL_SERVER` (default: `redis-server` on the PATH), the module by
//! `RL_MODULE` (default: what cargo has just built).
// Each test file uses its own part of this; helpers may end a test by panicking.
#![allow(dead_code, unused_imports, unused_macros)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod binaries;
mod builder;
mod client;
mod clock;
mod process;
mod replica;
mod resp;
mod server;

pub use binaries::{
    is_valkey, is_wrapped, module_path, old_server_program, patience, server_program, version,
};
pub use builder::Builder;
pub use client::{error_text, field, five, int, ints, parallel, plain};
pub use clock::{Clock, clock_supported};
pub use replica::{ReplicaTap, text};
pub use resp::{Raw, encode, escape};
pub use server::Server;

use std::io::Write as _;
use std::time::{Duration, Instant};

/// How long anything that should happen soon may take; generous, because build machines stall.
pub const SOON: Duration = Duration::from_secs(20);

/// Waits until `condition` holds; fails the calling test when it still does not after `deadline`
/// (times `RL_PATIENCE`).
#[track_caller]
pub fn eventually(deadline: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = deadline * patience();
    let end = Instant::now() + deadline;
    while !condition() {
        assert!(Instant::now() < end, "still not so after {deadline:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says that the calling test was left out, and why, also where a passing test's output is hidden.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    // Unlike eprintln!, the handle itself is not captured.
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}

/// The reply of a command, under RESP2 or RESP3; an error reply fails the test.
macro_rules! cmd {
    ($con:expr, $($arg:expr),+ $(,)?) => {
        match $crate::support::try_cmd!($con, $($arg),+) {
            Ok(value) => value,
            Err(e) => panic!("{}: {}", [$(stringify!($arg)),+].join(" "), $crate::support::error_text(&e)),
        }
    };
}

/// The text of the error that a command must be answered with, as the server sent it: `"ERR …"`.
macro_rules! err {
    ($con:expr, $($arg:expr),+ $(,)?) => {
        match $crate::support::try_cmd!($con, $($arg),+) {
            Ok(value) => panic!("{}: no error but {value:?}", [$(stringify!($arg)),+].join(" ")),
            Err(e) => $crate::support::error_text(&e),
        }
    };
}

/// The outcome of a command as a `redis::RedisResult<redis::Value>`.
macro_rules! try_cmd {
    ($con:expr, $($arg:expr),+ $(,)?) => {{
        use redis::ConnectionLike as _;
        let mut command = redis::Cmd::new();
        $(command.arg($arg);)+
        $con.req_command(&command).and_then(redis::Value::extract_error)
    }};
}

/// Ends the calling test, saying why, when the server has no clock that a test can turn.
macro_rules! needs_clock {
    () => {
        if !$crate::support::clock_supported() {
            $crate::support::skipped("the server has no clock that a test can turn");
            return;
        }
    };
}

pub(crate) use {cmd, err, needs_clock, try_cmd};
