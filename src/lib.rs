//! Native, atomic rate-limiter commands for Redis and Valkey.

mod args;
mod calendar;
mod commands;
mod config;
mod datatype;
mod entry;
mod error;
mod layered;
mod layers;
mod leases;
mod options;
mod server;
mod single;
mod stats;
mod store;

use redis_limiter_core::subject::Subject;
use server::{Args, Ctx, Failed};

/// Loads the module: everything that the server is told.
fn load(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Failed> {
    server::declare_options(ctx);
    // First what can fail: servers do not free the data type of a module that does not load.
    config::load(ctx, args)?;
    server::register_type::<Subject>(ctx)?;
    commands::load(ctx)?;
    server::register_info::<stats::Stats>(ctx)?;
    server::log::notice(c"ready");
    Ok(())
}
