//! What RL.RELEASE and RL.RENEW share: an id is looked up in every lease limit of the key.

use crate::error::Error;
use crate::server::{Arg, Ctx, now_us};
use crate::store::{Store, announce};
use redis_limiter_core::lease::{self, View};
use redis_limiter_core::limit::Identity;
use redis_limiter_core::state::Delta;
use redis_limiter_core::subject::Change;
use std::ffi::CStr;

/// Applies `change`, which says how many leases it is about, to every lease limit of the key;
/// answers the sum. A missing key has none.
pub fn change(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    event: &'static CStr,
    change: impl Fn(&View) -> (usize, Option<lease::Delta>),
) -> Result<usize, Error> {
    let now_us = now_us();
    let mut store = Store::open(ctx, key, now_us)?;
    // The names are copied: the changes must not borrow from what they change.
    let mut total = 0;
    let mut changed: Vec<(Option<Box<[u8]>>, lease::Delta)> = Vec::new();
    for (identity, leases) in store.subject().into_iter().flat_map(|subject| subject.lease_limits())
    {
        let view = View::new(Some(leases), now_us);
        let (count, delta) = change(&view);
        total += count;
        if let Some(delta) = delta.or_else(|| view.settle()) {
            changed.push((identity.name.map(Box::from), delta));
        }
    }
    if changed.is_empty() {
        return Ok(total);
    }
    let changes: Vec<Change> = changed
        .iter()
        .map(|(name, delta)| (Identity::lease(name.as_deref()), Delta::Lease(delta.clone())))
        .collect();
    let gone = store.apply(&changes)?;
    drop(store);
    announce(ctx, key, event, gone);
    Ok(total)
}
