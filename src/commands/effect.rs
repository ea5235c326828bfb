//! `RL.E key effect`: applies what a primary decided. For replicas, AOF replay and slot migration.

use super::specs;
use crate::entry::Command;
use crate::error::Error;
use crate::server::{Access, ArgSpec, Args, Ctx, Key, KeySpec, Kind, Spec};
use crate::stats::STATS;
use crate::store::announce;
use redis_limiter_core::codec::{Decoded, decode};
use redis_limiter_core::subject::Subject;

/// RL.E.
pub struct Effect;

impl Command for Effect {
    const SPEC: Spec = Spec {
        name: c"rl.e",
        flags: c"write",
        acl: c"admin dangerous",
        keys: KeySpec::First(Access::Write),
        arity: 3,
        summary: c"Internal: applies the effect of a call on a replica or from an AOF",
        since: c"0.1.0",
        complexity: c"O(1) for the effect of a call, O(n) for the whole state of a key",
        tips: c"",
        args: &[specs::KEY, ArgSpec::text(c"effect")],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        let (Some(name), Some(effect)) = (args.get(1), args.get(2)) else {
            return Err(Error::EFFECT);
        };
        let decoded = decode(effect.bytes()).map_err(|_| Error::EFFECT)?;
        // What a primary or a file sends fits. What somebody sends by hand may not: then the value
        // stays, for which it must be copied first.
        let keep = !ctx.is_following();
        let mut key = Key::<Subject>::open(ctx, name);
        let was_empty = matches!(key.kind(), Kind::Empty);
        match decoded {
            Decoded::Whole(subject) => key.set_value(Box::new(subject)),
            Decoded::Effect { now_us, expire_ms, changes } => {
                let kept = key.value_mut().filter(|_| keep).map(|subject| subject.clone());
                let mut slot = key.value_mut().map(Subject::take);
                if Subject::apply(&mut slot, &changes, now_us).is_err() {
                    put_back(&mut key, if keep { kept } else { slot });
                    return Err(Error::EFFECT);
                }
                store(&mut key, slot, expire_ms);
            }
        }
        let gone = !was_empty && matches!(key.kind(), Kind::Empty);
        key.close();
        // As it came, so that sub-replicas, their AOFs and targets of slot migrations get it too.
        ctx.replicate_verbatim();
        STATS.effects_applied.count();
        announce(ctx, name, c"rl.e", gone);
        ctx.reply_status(c"OK");
        Ok(())
    }
}

/// Puts back what was taken out to try an effect that does not fit it.
fn put_back(key: &mut Key<Subject>, subject: Option<Subject>) {
    match (subject, key.value_mut()) {
        (Some(subject), Some(stored)) => *stored = subject,
        (None, Some(_)) => key.delete(),
        // Nothing was taken: the key is missing or foreign.
        (_, None) => {}
    }
}

/// A foreign value is overwritten or deleted: the primary is right.
fn store(key: &mut Key<Subject>, subject: Option<Subject>, expire_ms: u64) {
    match (subject, key.value_mut()) {
        (None, _) => return key.delete(),
        (Some(subject), Some(stored)) => *stored = subject,
        (Some(subject), None) => key.set_value(Box::new(subject)),
    }
    let expire_ms = expire_ms.cast_signed();
    if expire_ms > 0 && key.expire_ms() != Some(expire_ms) {
        key.set_expire_ms(expire_ms);
    }
}
