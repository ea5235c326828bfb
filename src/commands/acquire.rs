//! `RL.ACQUIRE key limit ttl [slots] [ID id] [NX] [AS name]`

use super::specs;
use crate::args::Cursor;
use crate::entry::Command;
use crate::error::Error;
use crate::options::{self, Allowed, Options};
use crate::server::{Access, ArgSpec, Args, Ctx, KeySpec, Spec, random_bytes16};
use crate::single;
use crate::stats::STATS;
use redis_limiter_core::law::Ask;
use redis_limiter_core::limit::{Layer, Params};
use std::cell::OnceCell;

/// RL.ACQUIRE.
pub struct Acquire;

impl Command for Acquire {
    const SPEC: Spec = Spec {
        name: c"rl.acquire",
        flags: c"write fast",
        acl: c"write fast",
        keys: KeySpec::First(Access::Write),
        arity: -4,
        summary: c"Takes slots of a concurrency limit until they are released or their ttl is over",
        since: c"0.1.0",
        complexity: c"O(log n) with the number of leases",
        tips: c"nondeterministic_output",
        args: &[
            specs::KEY,
            specs::LIMIT,
            specs::TTL,
            ArgSpec::integer(c"slots").optional(),
            specs::ID,
            ArgSpec::flag(c"nx", c"NX").optional(),
            specs::NAME,
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        const ALLOWED: Allowed = Allowed { id: true, nx: true, ..Allowed::NONE };
        let key = args.get(1).ok_or(Error::ACQUIRE_SYNTAX)?;
        let mut cursor = Cursor::new(*args, 2);
        let limit = options::amount(&mut cursor, Error::LIMIT)?;
        let ttl_ms = options::duration_ms(&mut cursor, Error::TTL)?;
        let slots = options::cost(&mut cursor, Error::SLOTS)?;
        let Options { name, id, nx, .. } = Options::read(&mut cursor, ALLOWED)?;
        cursor.finish(Error::ACQUIRE_SYNTAX)?;
        if nx && id.is_none() {
            return Err(Error::NX_WITHOUT_ID);
        }
        let made = OnceCell::new();
        let params = Params::Lease { limit, ttl_ms, id, nx };
        let mut layer = Layer { params, name, ask: Ask::whole(slots) };
        let stats = &STATS.lease;
        let verdict = single::decide(ctx, key, &mut layer, stats, c"rl.acquire", |params| {
            if let Params::Lease { id: id @ None, .. } = params {
                *id = Some(made.get_or_init(new_id));
            }
        })?;
        ctx.reply_array_len(6);
        verdict.integers().into_iter().for_each(|value| ctx.reply_int(value));
        match layer.params {
            Params::Lease { id: Some(id), .. } if verdict.allowed == 1 && slots > 0 => {
                ctx.reply_bulk(id);
            }
            _ => ctx.reply_null(),
        }
        Ok(())
    }
}

/// 128 random bits in hexadecimal.
fn new_id() -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut id = [0; 32];
    for (pair, byte) in id.chunks_exact_mut(2).zip(random_bytes16()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    id
}
