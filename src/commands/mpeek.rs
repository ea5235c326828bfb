//! `RL.MPEEK [COST n] [DETAIL] KEY key layer [layer …] [KEY key layer …] …`

use super::specs;
use crate::entry::Command;
use crate::error::Error;
use crate::layered::{find_keys, run_many_keys};
use crate::layers::Form;
use crate::server::{Access, Args, Ctx, KeyPositions, KeySpec, Spec};

/// RL.MPEEK.
pub struct MPeek;

impl Command for MPeek {
    const SPEC: Spec = Spec {
        name: c"rl.mpeek",
        flags: c"readonly fast getkeys-api",
        acl: c"read fast",
        keys: KeySpec::After { access: Access::Read, keyword: c"KEY" },
        arity: -6,
        summary: c"Tells what RL.MTAKE would answer, and how its limits stand",
        since: c"0.1.0",
        complexity:
            c"O(n) with the number of layers; a LOG or LEASE layer: O(log m) with its entries",
        tips: c"nondeterministic_output",
        args: &[specs::CALL_COST, specs::DETAIL, specs::KEYED_LAYERS],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        run_many_keys(ctx, args, Form::Peek, c"rl.mpeek")
    }

    fn find_keys(args: &Args<'_>, found: &mut KeyPositions<'_>) {
        find_keys(args, found);
    }
}
