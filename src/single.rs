//! What the commands on one limit share: decide, store, and the five integers.

use crate::calendar::ServerCalendar;
use crate::error::Error;
use crate::server::{Arg, Ctx, now_us};
use crate::stats::Verdicts;
use crate::store::{Store, announce};
use redis_limiter_core::law::Outcome;
use redis_limiter_core::limit::{Layer, Params};
use redis_limiter_core::state::View;
use redis_limiter_core::subject::Subject;
use redis_limiter_core::verdict::Verdict;
use std::ffi::CStr;

/// Checks and charges one limit, and counts the verdict.
pub fn charge(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    layer: &mut Layer<'_>,
    stats: &Verdicts,
    event: &'static CStr,
) -> Result<Verdict, Error> {
    decide(ctx, key, layer, stats, event, |_| ())
}

/// The same, where `admitted` may complete the layer once it is known to be admitted.
pub fn decide<'a>(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    layer: &mut Layer<'a>,
    stats: &Verdicts,
    event: &'static CStr,
    admitted: impl FnOnce(&mut Params<'a>),
) -> Result<Verdict, Error> {
    let now_us = now_us();
    let mut store = Store::open(ctx, key, now_us)?;
    let view = look(store.subject(), layer, now_us);
    let outcome = view.decide(layer)?;
    let change = match outcome {
        Outcome::Admit { .. } => {
            admitted(&mut layer.params);
            view.charge(layer, outcome)
        }
        // A call of cost 0 never writes, not even what the clock rule asks for.
        Outcome::Refuse { .. } if layer.ask.cost == 0 => None,
        Outcome::Refuse { .. } => view.settle(),
    };
    let Some(delta) = change else {
        stats.count(outcome);
        return Ok(view.verdict(layer, outcome));
    };
    let (grows, after) = (view.grows(&delta), view.after(&delta));
    let changes = [(layer.identity(), delta)];
    if matches!(outcome, Outcome::Admit { .. }) {
        store.check_room(&changes, grows)?;
    }
    let gone = store.apply(&changes)?;
    let after = after.unwrap_or_else(|| look(store.subject(), layer, now_us));
    let verdict = after.verdict(layer, outcome);
    drop(store);
    announce(ctx, key, event, gone);
    stats.count(outcome);
    Ok(verdict)
}

#[inline]
fn look<'s>(subject: Option<&'s Subject>, layer: &Layer, now_us: u64) -> View<'s> {
    View::new(subject, 0, layer, now_us, &mut ServerCalendar)
}
