//! `RL.INFO key`: what is stored, for a person or a support tool.

use crate::datatype::Stored;
use crate::entry::Command;
use crate::error::Error;
use crate::server::{Access, ArgSpec, Args, Ctx, KeySpec, KeyView, Kind, Spec};

/// RL.INFO.
pub struct InfoCommand;

impl Command for InfoCommand {
    const SPEC: Spec = Spec {
        name: c"rl.info",
        flags: c"readonly fast",
        acl: c"read fast",
        keys: KeySpec::First(Access::Read),
        arity: 2,
        summary: c"Shows the limits that a key holds",
        since: c"0.1.0",
        complexity: c"O(n) with the number of limits of the key",
        tips: c"nondeterministic_output",
        args: &[ArgSpec::key(c"key")],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        match KeyView::<Stored>::open(ctx, args.key()?).kind() {
            Kind::Empty => ctx.reply_null(),
            Kind::Ours(_) => ctx.reply_array_len(0),
            Kind::Foreign => return Err(Error::WRONG_TYPE),
        }
        Ok(())
    }
}
