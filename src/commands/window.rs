//! `RL.WINDOW key window limit [cost] [SLIDING | FIXED | LOG] [AS name] [FORCE | UPTO] [LEAVE n]`

use super::specs;
use crate::args::Cursor;
use crate::entry::Command;
use crate::error::Error;
use crate::options::{self, Allowed, Options};
use crate::server::{Access, Args, Ctx, KeySpec, Spec};
use crate::single;
use crate::stats::STATS;
use redis_limiter_core::limit::Layer;

/// RL.WINDOW.
pub struct Window;

impl Command for Window {
    const SPEC: Spec = Spec {
        name: c"rl.window",
        flags: c"write fast",
        acl: c"write fast",
        keys: KeySpec::First(Access::Write),
        arity: -4,
        summary: c"Checks and charges a window: at most so many units per length of time",
        since: c"0.1.0",
        complexity: c"O(1); LOG: O(log n) with the number of entries",
        tips: c"",
        args: &[
            specs::KEY,
            specs::WINDOW,
            specs::LIMIT,
            specs::COST,
            specs::MODE,
            specs::NAME,
            specs::CHARGING,
            specs::LEAVE,
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        const ALLOWED: Allowed =
            Allowed { charging: true, leave: true, mode: true, ..Allowed::NONE };
        let key = args.get(1).ok_or(Error::WINDOW_SYNTAX)?;
        let mut cursor = Cursor::new(*args, 2);
        let length_ms = options::window_ms(&mut cursor)?;
        let limit = options::amount(&mut cursor, Error::LIMIT)?;
        let cost = options::cost(&mut cursor, Error::COST)?;
        let options = Options::read(&mut cursor, ALLOWED)?;
        cursor.finish(Error::WINDOW_SYNTAX)?;
        let params = options::window_params(length_ms, limit, &options)?;
        let mut layer = Layer { params, name: options.name, ask: options.ask(cost)? };
        let verdict = single::charge(ctx, key, &mut layer, &STATS.window, c"rl.window")?;
        ctx.reply_ints(&verdict.integers());
        Ok(())
    }
}
