//! `RL.PEEK key [COST n] [DETAIL] layer [layer …]`

use super::specs;
use crate::entry::Command;
use crate::error::Error;
use crate::layered::run_one_key;
use crate::layers::Form;
use crate::server::{Access, Args, Ctx, KeySpec, Spec};

/// RL.PEEK.
pub struct Peek;

impl Command for Peek {
    const SPEC: Spec = Spec {
        name: c"rl.peek",
        flags: c"readonly fast",
        acl: c"read fast",
        keys: KeySpec::First(Access::Read),
        arity: -5,
        summary: c"Tells what RL.TAKE would answer, and how its limits stand",
        since: c"0.1.0",
        complexity:
            c"O(n) with the number of layers; a LOG or LEASE layer: O(log m) with its entries",
        tips: c"nondeterministic_output",
        args: &[specs::KEY, specs::CALL_COST, specs::DETAIL, specs::LAYERS],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        run_one_key(ctx, args, Form::Peek, c"rl.peek")
    }
}
