//! `RL.QUOTA key period limit [cost] [TZ zone] [ANCHOR n] [AS name] [FORCE | UPTO] [LEAVE n]`

use super::specs;
use crate::args::Cursor;
use crate::entry::Command;
use crate::error::Error;
use crate::options::{self, Allowed, Options};
use crate::server::{Access, Args, Ctx, KeySpec, Spec};
use crate::single;
use crate::stats::STATS;
use redis_limiter_core::limit::Layer;

/// RL.QUOTA.
pub struct Quota;

impl Command for Quota {
    const SPEC: Spec = Spec {
        name: c"rl.quota",
        flags: c"write fast",
        acl: c"write fast",
        keys: KeySpec::First(Access::Write),
        arity: -4,
        summary: c"Checks and charges a quota per calendar period in a time zone",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"",
        args: &[
            specs::KEY,
            specs::PERIOD,
            specs::LIMIT,
            specs::COST,
            specs::ZONE,
            specs::ANCHOR,
            specs::NAME,
            specs::CHARGING,
            specs::LEAVE,
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        const ALLOWED: Allowed =
            Allowed { charging: true, leave: true, calendar: true, ..Allowed::NONE };
        let key = args.get(1).ok_or(Error::QUOTA_SYNTAX)?;
        let mut cursor = Cursor::new(*args, 2);
        let period = options::period(&mut cursor)?;
        let limit = options::amount(&mut cursor, Error::LIMIT)?;
        let cost = options::cost(&mut cursor, Error::COST)?;
        let options = Options::read(&mut cursor, ALLOWED)?;
        cursor.finish(Error::QUOTA_SYNTAX)?;
        let params = options::quota_params(period, limit, &options)?;
        let mut layer = Layer { params, name: options.name, ask: options.ask(cost)? };
        let verdict = single::charge(ctx, key, &mut layer, &STATS.quota, c"rl.quota")?;
        ctx.reply_ints(&verdict.integers());
        Ok(())
    }
}
