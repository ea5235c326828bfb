//! `RL.RELEASE key id [id …]`

use super::specs;
use crate::args::Cursor;
use crate::entry::Command;
use crate::error::Error;
use crate::leases;
use crate::options;
use crate::server::{Access, ArgSpec, Args, Ctx, KeySpec, Spec};

/// RL.RELEASE.
pub struct Release;

impl Command for Release {
    const SPEC: Spec = Spec {
        name: c"rl.release",
        flags: c"write fast",
        acl: c"write fast",
        keys: KeySpec::First(Access::Write),
        arity: -3,
        summary: c"Ends leases before their ttl is over",
        since: c"0.1.0",
        complexity: c"O(m log n) with the number of ids and of leases",
        tips: c"",
        args: &[specs::KEY, ArgSpec::text(c"id").multiple()],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        let key = args.get(1).ok_or(Error::ID)?;
        let mut cursor = Cursor::new(*args, 2);
        let mut ids = Vec::new();
        while !cursor.is_done() {
            ids.push(options::id(&mut cursor)?);
        }
        let ended =
            leases::change(ctx, key, c"rl.release", |view| view.release(ids.iter().copied()))?;
        ctx.reply_int(i64::try_from(ended).unwrap_or(i64::MAX));
        Ok(())
    }
}
