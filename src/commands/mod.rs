//! The commands, one a file.

mod acquire;
mod bucket;
mod cl_throttle;
mod effect;
mod info;
mod mpeek;
mod mrefund;
mod mtake;
mod peek;
mod quota;
mod refund;
mod release;
mod renew;
mod reset;
mod specs;
mod take;
mod window;

use crate::config;
use crate::entry::{register, register_if_free};
use crate::server::{Category, Ctx, Failed, add_category, log};

/// Registers every command.
pub fn load(ctx: &mut Ctx<'_>) -> Result<(), Failed> {
    let category = add_category(ctx, c"ratelimit");
    register::<bucket::Bucket>(ctx, category)?;
    register::<window::Window>(ctx, category)?;
    register::<quota::Quota>(ctx, category)?;
    register::<acquire::Acquire>(ctx, category)?;
    register::<release::Release>(ctx, category)?;
    register::<renew::Renew>(ctx, category)?;
    register::<take::Take>(ctx, category)?;
    register::<peek::Peek>(ctx, category)?;
    register::<refund::Refund>(ctx, category)?;
    register::<mtake::MTake>(ctx, category)?;
    register::<mpeek::MPeek>(ctx, category)?;
    register::<mrefund::MRefund>(ctx, category)?;
    register::<info::Info>(ctx, category)?;
    register::<reset::Reset>(ctx, category)?;
    register::<effect::Effect>(ctx, Category::NONE)?;
    if config::CL_THROTTLE.get() && !register_if_free::<cl_throttle::Throttle>(ctx, category)? {
        log::notice(c"another module owns CL.THROTTLE, going on without it");
    }
    Ok(())
}
