//! `RL.BUCKET key rate burst [cost] [AS name] [FORCE | UPTO | MAXWAIT duration] [LEAVE n]`

use super::specs;
use crate::args::Cursor;
use crate::entry::Command;
use crate::error::Error;
use crate::options::{self, Allowed, Options};
use crate::server::{Access, ArgSpec, Args, Ctx, KeySpec, Spec};
use crate::single;
use crate::stats::STATS;
use redis_limiter_core::limit::{Layer, Params};

/// RL.BUCKET.
pub struct Bucket;

impl Command for Bucket {
    const SPEC: Spec = Spec {
        name: c"rl.bucket",
        flags: c"write fast",
        acl: c"write fast",
        keys: KeySpec::First(Access::Write),
        arity: -4,
        summary: c"Checks and charges a token bucket",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"",
        args: &[
            specs::KEY,
            specs::RATE,
            specs::BURST,
            specs::COST,
            specs::NAME,
            ArgSpec::one_of(
                c"charging",
                &[specs::FORCE, specs::UPTO, ArgSpec::text(c"maxwait").after(c"MAXWAIT")],
            )
            .optional(),
            specs::LEAVE,
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        const ALLOWED: Allowed =
            Allowed { charging: true, maxwait: true, leave: true, ..Allowed::NONE };
        let key = args.get(1).ok_or(Error::BUCKET_SYNTAX)?;
        let mut cursor = Cursor::new(*args, 2);
        let rate = options::rate(&mut cursor)?;
        let burst = options::amount(&mut cursor, Error::BURST)?;
        let cost = options::cost(&mut cursor, Error::COST)?;
        let options = Options::read(&mut cursor, ALLOWED)?;
        cursor.finish(Error::BUCKET_SYNTAX)?;
        let params = Params::Bucket { rate, burst };
        let mut layer = Layer { params, name: options.name, ask: options.ask(cost)? };
        let verdict = single::charge(ctx, key, &mut layer, &STATS.bucket, c"rl.bucket")?;
        ctx.reply_ints(&verdict.integers());
        Ok(())
    }
}
