//! `RL.RENEW key id ttl`

use super::specs;
use crate::args::Cursor;
use crate::entry::Command;
use crate::error::Error;
use crate::leases;
use crate::options;
use crate::server::{Access, ArgSpec, Args, Ctx, KeySpec, Spec};

/// RL.RENEW.
pub struct Renew;

impl Command for Renew {
    const SPEC: Spec = Spec {
        name: c"rl.renew",
        flags: c"write fast",
        acl: c"write fast",
        keys: KeySpec::First(Access::Write),
        arity: 4,
        summary: c"Makes a lease that is still held end a ttl from now",
        since: c"0.1.0",
        complexity: c"O(log n) with the number of leases",
        tips: c"",
        args: &[specs::KEY, ArgSpec::text(c"id"), specs::TTL],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        let key = args.key()?;
        let mut cursor = Cursor::new(*args, 2);
        let id = options::id(&mut cursor)?;
        let ttl_ms = options::duration_ms(&mut cursor, Error::TTL)?;
        cursor.finish(Error::RENEW_SYNTAX)?;
        let renewed = leases::change(ctx, key, c"rl.renew", |view| view.renew(id, ttl_ms))?;
        ctx.reply_int(i64::from(renewed > 0));
        Ok(())
    }
}
