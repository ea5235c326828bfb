//! What every command goes through: its error becomes the reply.

use crate::error::Error;
use crate::server::{
    Args, Category, Ctx, Failed, Handler, KeyPositions, Spec, create_command,
    create_command_if_free,
};
use crate::stats::STATS;
use std::marker::PhantomData;

/// A command.
pub trait Command {
    /// What the server is told of it.
    const SPEC: Spec;

    /// Runs one call. It replies as its last act, or returns an error having changed and replied
    /// nothing.
    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error>;

    /// Finds the keys of a call whose keys are not simply its first argument; the call may be
    /// malformed.
    fn find_keys(_args: &Args<'_>, _found: &mut KeyPositions<'_>) {}
}

/// Registers `C` with the server.
pub fn register<C: Command>(ctx: &mut Ctx<'_>, category: Category) -> Result<(), Failed> {
    create_command::<Entry<C>>(ctx, category)
}

/// Registers `C` unless another module owns the name; answers whether it did.
pub fn register_if_free<C: Command>(ctx: &mut Ctx<'_>, category: Category) -> Result<bool, Failed> {
    create_command_if_free::<Entry<C>>(ctx, category)
}

struct Entry<C>(PhantomData<C>);

impl<C: Command> Handler for Entry<C> {
    const SPEC: Spec = C::SPEC;

    #[inline]
    fn answer(ctx: &mut Ctx<'_>, args: &Args<'_>) {
        STATS.calls.count();
        if let Err(error) = C::run(ctx, args) {
            STATS.errors.count();
            ctx.reply_error(error);
        }
    }

    fn find_keys(args: &Args<'_>, found: &mut KeyPositions<'_>) {
        C::find_keys(args, found);
    }
}
