//! CL.THROTTLE: redis-cell's command, reply for reply.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "cl_throttle/beside_another.rs"]
mod beside_another;
#[path = "cl_throttle/replies.rs"]
mod replies;
#[path = "cl_throttle/state.rs"]
mod state;
#[path = "cl_throttle/take_over.rs"]
mod take_over;

use redis::Connection;
use support::*;

/// The five integers of one call, whose arguments stand in a line.
#[track_caller]
fn throttle(con: &mut Connection, args: &str) -> Vec<i64> {
    let args: Vec<&str> = args.split(' ').collect();
    ints(&cmd!(con, "CL.THROTTLE", &args))
}
