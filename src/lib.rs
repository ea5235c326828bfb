//! Native, atomic rate-limiter commands for Redis and Valkey.
// Names of this crate are seen by the server only; integers of its C API are narrowed knowingly.
#![allow(clippy::cast_possible_truncation)]

// The allowances end when the commands are complete.
#[allow(dead_code)]
mod args;
mod commands;
mod config;
mod datatype;
mod entry;
#[allow(dead_code)]
mod error;
#[allow(dead_code, unused_imports)]
mod server;

use server::{Args, Ctx, Failed, Info, InfoSource};

/// Loads the module: everything that the server is told.
fn load(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Failed> {
    server::declare_options(ctx);
    server::register_type::<datatype::Stored>(ctx)?;
    config::load(ctx, args)?;
    commands::load(ctx)?;
    server::register_info::<Stats>(ctx)?;
    server::log::notice(c"ready");
    Ok(())
}

struct Stats;

impl InfoSource for Stats {
    fn fill(info: &mut Info) {
        info.section(c"options");
        info.field(c"cl_throttle", u64::from(config::CL_THROTTLE.get()));
    }
}
