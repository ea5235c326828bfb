//! The commands, one a file.

mod info;

use crate::entry::register;
use crate::server::{Ctx, Failed, add_category};

/// Registers every command.
pub fn load(ctx: &mut Ctx<'_>) -> Result<(), Failed> {
    let category = add_category(ctx, c"ratelimit");
    register::<info::InfoCommand>(ctx, category)?;
    Ok(())
}
