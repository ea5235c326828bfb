//! The module's options.

use crate::server::{Args, BoolOption, Ctx, Failed, load_options};

/// Whether to offer CL.THROTTLE, redis-cell's command.
pub static CL_THROTTLE: BoolOption = BoolOption::at_load_only(c"cl-throttle", true);

static ALL: &[&BoolOption] = &[&CL_THROTTLE];

/// Registers all options and reads their values.
pub fn load(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Failed> {
    load_options(ctx, ALL, args)
}
