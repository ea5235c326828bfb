//! `CL.THROTTLE key max_burst count period [quantity]`: redis-cell's command, on the unnamed bucket.

use super::specs;
use crate::args::{ArgSource, Cursor};
use crate::entry::Command;
use crate::error::Error;
use crate::server::{Access, ArgSpec, Args, Ctx, KeySpec, Spec, now_us};
use crate::stats::STATS;
use crate::store::{Store, announce};
use redis_limiter_core::bucket::{Bucket, View};
use redis_limiter_core::limit::Identity;
use redis_limiter_core::redis_cell::{self, Decision};
use redis_limiter_core::state::Delta;
use redis_limiter_core::subject::Subject;
use redis_limiter_core::units::{MAX_AMOUNT, Rate};

/// CL.THROTTLE.
pub struct Throttle;

impl Command for Throttle {
    const SPEC: Spec = Spec {
        name: c"cl.throttle",
        flags: c"write fast",
        acl: c"write fast",
        keys: KeySpec::First(Access::Write),
        arity: -5,
        summary:
            c"Checks and charges a token bucket, with the arguments and the reply of redis-cell",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"",
        args: &[
            specs::KEY,
            ArgSpec::integer(c"max_burst"),
            ArgSpec::integer(c"count"),
            ArgSpec::integer(c"period"),
            ArgSpec::integer(c"quantity").optional(),
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        let key = args.key()?;
        let Call { limit, rate, quantity } = Call::read(&mut Cursor::new(*args, 2))?;
        let now_us = now_us();
        let (mut store, instant_ns) = Store::open_redis_cell(ctx, key, now_us)?;
        let bucket = match instant_ns {
            Some(instant_ns) => Bucket::until_ns(instant_ns, rate, now_us),
            None => store.subject().and_then(Subject::bucket),
        };
        let mut view = View::new(bucket, rate, now_us);
        let decision = redis_cell::decide(&view, limit, quantity);
        let change = change(&view, decision, quantity).map(|delta| [(Identity::BUCKET, delta)]);
        let mut gone = false;
        if let Some(change) = &change {
            if decision == Decision::Allowed && quantity > 0 {
                store.check_room(change, false)?;
            }
            gone = store.apply(change)?;
            view = View::new(store.subject().and_then(Subject::bucket), rate, now_us);
        }
        drop(store);
        if change.is_some() {
            announce(ctx, key, Self::SPEC.name, gone);
        }
        count(decision, quantity);
        ctx.reply_ints(&redis_cell::reply(&view, limit, decision));
        Ok(())
    }
}

/// What the call does to the bucket: charge, give back, or under a refusal what the clock rule asks
/// for. Quantity 0 never writes.
fn change(view: &View, decision: Decision, quantity: i64) -> Option<Delta> {
    match (decision, quantity) {
        (_, 0) => None,
        (Decision::Limited { .. }, _) => view.settle().map(Delta::Bucket),
        (Decision::Allowed, ..0) => view.refund(quantity.unsigned_abs()),
        (Decision::Allowed, _) => Some(Delta::Bucket(view.charge(quantity.unsigned_abs()))),
    }
}

/// Counts the verdict as RL.BUCKET's. Giving back is none.
fn count(decision: Decision, quantity: i64) {
    match (decision, quantity) {
        (_, ..0) => {}
        (Decision::Allowed, _) => STATS.bucket.admitted.count(),
        (Decision::Limited { .. }, _) => STATS.bucket.refused.count(),
    }
}

/// The arguments after the key.
#[derive(Debug)]
struct Call {
    /// The capacity: `max_burst` + 1.
    limit: i64,
    /// `count` per `period` seconds.
    rate: Rate,
    /// Units to take; below 0: to give back.
    quantity: i64,
}

impl Call {
    fn read<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>) -> Result<Self, Error> {
        let limit = cursor.parsed(limit, Error::MAX_BURST)?;
        let count = cursor.parsed(positive, Error::COUNT_PER_PERIOD)?;
        let period_s = cursor.parsed(positive, Error::COUNT_PER_PERIOD)?;
        let rate = Rate::per_seconds(count, period_s).ok_or(Error::COUNT_PER_PERIOD)?;
        let quantity =
            if cursor.is_done() { 1 } else { cursor.parsed(integer, Error::QUANTITY)? };
        if !cursor.is_done() {
            return Err(Error::THROTTLE_SYNTAX);
        }
        Ok(Self { limit, rate, quantity })
    }
}

/// An integer as redis-cell reads it: a sign, also `+`, and leading zeros are allowed.
fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn positive(text: &[u8]) -> Option<u64> {
    integer(text).and_then(|number| u64::try_from(number).ok()).filter(|&number| number > 0)
}

fn limit(text: &[u8]) -> Option<i64> {
    integer(text)?.checked_add(1).filter(|limit| limit.unsigned_abs() <= MAX_AMOUNT)
}
