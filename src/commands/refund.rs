//! `RL.REFUND key [COST n] [AGE duration] [DETAIL] layer [layer …]`

use super::specs;
use crate::entry::Command;
use crate::error::Error;
use crate::layered::run_one_key;
use crate::layers::Form;
use crate::server::{Access, Args, Ctx, KeySpec, Spec};

/// RL.REFUND.
pub struct Refund;

impl Command for Refund {
    const SPEC: Spec = Spec {
        name: c"rl.refund",
        flags: c"write fast",
        acl: c"write fast",
        keys: KeySpec::First(Access::Write),
        arity: -5,
        summary: c"Gives back what an RL.TAKE of the same layers charged",
        since: c"0.1.0",
        complexity:
            c"O(n) with the number of layers; a LOG or LEASE layer: O(log m) with its entries",
        tips: c"",
        args: &[specs::KEY, specs::CALL_COST, specs::AGE, specs::DETAIL, specs::LAYERS],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        run_one_key(ctx, args, Form::Refund, c"rl.refund")
    }
}
