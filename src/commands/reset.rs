//! `RL.RESET key BUCKET | WINDOW window [SLIDING | FIXED | LOG] | QUOTA period | LEASE [AS name]`

use super::specs;
use crate::args::{Cursor, words};
use crate::entry::Command;
use crate::error::Error;
use crate::options::{self, Allowed, Options};
use crate::server::{Access, ArgSpec, Args, Ctx, KeySpec, Spec, now_us};
use crate::store::{Store, announce};
use redis_limiter_core::limit::{Identity, Which};
use redis_limiter_core::state::Delta;

/// RL.RESET.
pub struct Reset;

impl Command for Reset {
    const SPEC: Spec = Spec {
        name: c"rl.reset",
        flags: c"write fast",
        acl: c"write fast",
        keys: KeySpec::First(Access::Write),
        arity: -3,
        summary: c"Forgets one limit of a key",
        since: c"0.1.0",
        complexity: c"O(n) with the number of limits",
        tips: c"",
        args: &[
            specs::KEY,
            ArgSpec::one_of(
                c"limit",
                &[
                    ArgSpec::flag(c"bucket", c"BUCKET"),
                    ArgSpec::block(c"window", &[specs::WINDOW, specs::MODE]).after(c"WINDOW"),
                    ArgSpec::block(c"quota", &[specs::PERIOD]).after(c"QUOTA"),
                    ArgSpec::flag(c"lease", c"LEASE"),
                ],
            ),
            specs::NAME,
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        let key = args.key()?;
        let mut cursor = Cursor::new(*args, 2);
        let identity = identity(&mut cursor)?;
        cursor.finish(Error::RESET_SYNTAX)?;
        let now_us = now_us();
        let mut store = Store::open(ctx, key, now_us)?;
        let is_live = store
            .subject()
            .is_some_and(|subject| subject.live(now_us).any(|(live, _)| live == identity));
        let gone = is_live && store.apply(&[(identity, Delta::Forget)])?;
        drop(store);
        if is_live {
            announce(ctx, key, c"rl.reset", gone);
        }
        ctx.reply_int(i64::from(is_live));
        Ok(())
    }
}

fn identity<'a>(cursor: &mut Cursor<'a>) -> Result<Identity<'a>, Error> {
    let (which, options) = if cursor.keyword(words::BUCKET) {
        (Which::Bucket, Options::read(cursor, Allowed::NONE)?)
    } else if cursor.keyword(words::WINDOW) {
        let length_ms = options::window_ms(cursor)?;
        let options = Options::read(cursor, Allowed { mode: true, ..Allowed::NONE })?;
        (Which::Window { mode: options.mode.unwrap_or_default(), length_ms }, options)
    } else if cursor.keyword(words::QUOTA) {
        (Which::Quota(options::period(cursor)?), Options::read(cursor, Allowed::NONE)?)
    } else if cursor.keyword(words::LEASE) {
        (Which::Lease, Options::read(cursor, Allowed::NONE)?)
    } else {
        return Err(Error::RESET_SYNTAX);
    };
    Ok(Identity { which, name: options.name })
}
