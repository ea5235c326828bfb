//! `RL.MTAKE [COST n] [FORCE] [DETAIL] KEY key layer [layer …] [KEY key layer …] …`

use super::specs;
use crate::entry::Command;
use crate::error::Error;
use crate::layered::{find_keys, run_many_keys};
use crate::layers::Form;
use crate::server::{Access, Args, Ctx, KeyPositions, KeySpec, Spec};

/// RL.MTAKE.
pub struct MTake;

impl Command for MTake {
    const SPEC: Spec = Spec {
        name: c"rl.mtake",
        flags: c"write fast getkeys-api",
        acl: c"write fast",
        keys: KeySpec::After { access: Access::Write, keyword: c"KEY" },
        arity: -6,
        summary: c"Checks several limits of several keys and charges all of them or none",
        since: c"0.1.0",
        complexity:
            c"O(n) with the number of layers; a LOG or LEASE layer: O(log m) with its entries",
        tips: c"",
        args: &[specs::CALL_COST, specs::FORCE.optional(), specs::DETAIL, specs::KEYED_LAYERS],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        run_many_keys(ctx, args, Form::Take, c"rl.mtake")
    }

    fn find_keys(args: &Args<'_>, found: &mut KeyPositions<'_>) {
        find_keys(args, found);
    }
}
