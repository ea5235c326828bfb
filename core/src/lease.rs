//! Concurrency leases: at most `limit` slots held at once, each lease until its end.
//!
//! ```text
//!  slots        limit 4
//!   a ██████████████▌            a: 2 slots, released here
//!   b     ████████████████████   b: 1 slot, its holder died: over at acquire + ttl
//!   c         ████████▌███████   c: 1 slot, renewed: over at renew + ttl
//!   ──────────────────────────→
//!     1 2 3   4       4 2   0    held; a call for n slots fits as soon as held ≤ limit − n
//! ```
//!
//! A lease is over at the very microsecond of its end. Slots only come back, so both what is held
//! and the number of leases fall from now on if nobody acquires, and every wait is the end of one
//! stored lease: the law's promise is exact.
//!
//! The clock rule: when `newest_us`, the instant of the last acquire or renew, lies in the future,
//! a call sees the leases as they stood then, which equals moving them all back to now.

mod delta;
mod order;
mod set;

pub use delta::{Delta, apply};
pub use set::LeaseSet;

use crate::law::{self, Ask, Charging, Outcome, Overflow, Usage};
use crate::units::{MAX_DURATION_MS, MAX_INSTANT_US, ceil_ms};
use order::{Ended, Lease};
use std::sync::Arc;

/// The most leases of one limit.
pub const MAX_LEASES: usize = 65_536;

/// The longest lease id in bytes; the shortest has 1.
pub const MAX_ID_BYTES: usize = 128;

/// The longest lease: 366 days.
const MAX_TTL_US: u64 = MAX_DURATION_MS * 1000;

/// What a call asks of the leases of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// The lease id, 1 to 128 bytes; `None` stands for a holder who has none yet.
    pub id: Option<&'a [u8]>,
    /// Slots; 0 only asks whether the limit is kept.
    pub slots: u64,
    /// How long the lease lasts from now, `1 ..= MAX_DURATION_MS`.
    pub ttl_ms: u64,
    /// Refuse an id that is held already.
    pub nx: bool,
}

/// Why a claim can be neither admitted nor refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The id holds another number of slots.
    OtherCount,
    /// A forced claim beyond [`MAX_LEASES`].
    Full,
    /// A forced claim would lift the slots held above 2^53 − 1.
    Overflow,
}

impl From<Overflow> for ClaimError {
    fn from(_: Overflow) -> Self {
        Self::Overflow
    }
}

/// What RL.INFO shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many leases are held.
    pub holders: u64,
    /// Their slots.
    pub slots: u64,
    /// When the first of them ends, Unix ms, rounded up.
    pub next_end_ms: u64,
}

/// The leases of a limit seen at one instant.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    set: Option<&'a LeaseSet>,
    now_us: u64,
    /// Now on the time scale of the stored ends: later than `now_us` if the clock stepped back.
    at_us: u64,
    /// The stored leases that are over.
    ended: Ended,
}

impl<'a> View<'a> {
    /// Sees `set` (none: nothing is held) at `now_us`.
    #[must_use]
    pub fn new(set: Option<&'a LeaseSet>, now_us: u64) -> Self {
        let now_us = now_us.min(MAX_INSTANT_US);
        let at_us = set.map_or(now_us, |set| now_us.max(set.newest_us));
        let ended = set.map_or_else(Ended::default, |set| set.order.ended(at_us));
        Self { set, now_us, at_us, ended }
    }

    /// How many leases are held.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.set.map_or(0, |set| set.order.count() - self.ended.count)
    }

    /// The lease of `id` if it is still held.
    fn held(&self, id: &[u8]) -> Option<&'a Lease> {
        self.set?.get(id).filter(|lease| lease.end_us > self.at_us)
    }

    /// The lease that ends first.
    fn first(&self) -> Option<&'a Lease> {
        self.set?.order.first_after(&self.ended)
    }

    const fn until_us(&self, end_us: u64) -> u64 {
        end_us.saturating_sub(self.at_us)
    }

    /// What the law says to `claim` under `limit` when `leave` slots must stay for others.
    /// `force` admits a new holder also beyond the limit.
    ///
    /// A held id with the same slots is admitted with 0 units, to be renewed, whatever is held and
    /// must be left: it takes nothing. With NX it is refused until it could be taken anew. Only
    /// limit 0 refuses it for ever.
    ///
    /// # Errors
    /// [`ClaimError::OtherCount`] without NX; [`ClaimError::Full`] and [`ClaimError::Overflow`] only
    /// with `force`.
    pub fn decide(
        &self,
        limit: u64,
        claim: &Claim,
        leave: u64,
        force: bool,
    ) -> Result<Outcome, ClaimError> {
        let charging = if force { Charging::Force } else { Charging::Whole };
        let by_law = || law::decide(self, limit, &Ask { cost: claim.slots, leave, charging });
        if claim.slots == 0 || (limit == 0 && !force) {
            return Ok(by_law()?);
        }
        match claim.id.and_then(|id| self.held(id)) {
            Some(held) if claim.nx => Ok(not_before(by_law()?, self.until_us(held.end_us))),
            Some(held) if held.slots != claim.slots => Err(ClaimError::OtherCount),
            Some(_) => Ok(Outcome::Admit { units: 0, wait_ms: 0 }),
            None if self.holders() < MAX_LEASES => Ok(by_law()?),
            None if force => Err(ClaimError::Full),
            None => {
                let until_us = self.first().map_or(0, |first| self.until_us(first.end_us));
                Ok(not_before(by_law()?, until_us))
            }
        }
    }

    /// When the lease by which `claim` is admitted now will be over (milliseconds from now, rounded
    /// up), and the refusal of the same claim from then on: until when a new lease would fit. `None`
    /// unless it is admitted as held.
    #[must_use]
    pub fn lapse(&self, limit: u64, claim: &Claim, leave: u64) -> Option<(u64, Outcome)> {
        let held = claim.id.and_then(|id| self.held(id)).filter(|_| !claim.nx && limit > 0)?;
        let ask = Ask { cost: claim.slots, leave, charging: Charging::Whole };
        let until_us = self.until_us(held.end_us);
        let anew = not_before(law::decide(self, limit, &ask).ok()?, until_us);
        Some((ceil_ms(until_us), anew))
    }

    /// The change that an admitted `claim` makes. `None` for 0 slots, without an id, or when the
    /// lease is so already.
    #[must_use]
    pub fn charge(&self, claim: &Claim) -> Option<Delta> {
        let id = claim.id?;
        if claim.slots == 0 {
            return None;
        }
        match self.held(id) {
            Some(held) => self.renewed(held, claim.ttl_ms),
            None => Some(Delta::Hold {
                id: id.into(),
                slots: claim.slots,
                end_us: self.end_us(claim.ttl_ms),
                new: true,
            }),
        }
    }

    /// Whether `id` is held (1 or 0), and the change by which it is held until now + `ttl_ms`, longer
    /// or shorter than before. `None` also when it is so already.
    #[must_use]
    pub fn renew(&self, id: &[u8], ttl_ms: u64) -> (usize, Option<Delta>) {
        match self.held(id) {
            Some(held) => (1, self.renewed(held, ttl_ms)),
            None => (0, None),
        }
    }

    fn renewed(&self, held: &Lease, ttl_ms: u64) -> Option<Delta> {
        let end_us = self.end_us(ttl_ms);
        // The newest instant is stored too: only within that instant nothing changes.
        let is_so = held.end_us == end_us && self.set?.newest_us == self.now_us;
        let (id, slots) = (Arc::clone(&held.id), held.slots);
        (!is_so).then_some(Delta::Hold { id, slots, end_us, new: false })
    }

    fn end_us(&self, ttl_ms: u64) -> u64 {
        self.now_us + ttl_ms.clamp(1, MAX_DURATION_MS) * 1000
    }

    /// How many of `ids` are held, each counted once, and the change that ends them. `None` when
    /// none is held: then [`View::settle`] may still be due.
    #[must_use]
    pub fn release<'b>(&self, ids: impl IntoIterator<Item = &'b [u8]>) -> (usize, Option<Delta>) {
        let held = ids.into_iter().filter_map(|id| self.held(id));
        let mut held: Vec<Arc<[u8]>> = held.map(|lease| Arc::clone(&lease.id)).collect();
        held.sort_unstable();
        held.dedup();
        (held.len(), (!held.is_empty()).then_some(Delta::Release(held)))
    }

    /// The change that the clock rule demands even of a call that changes nothing else.
    #[must_use]
    pub fn settle(&self) -> Option<Delta> {
        (self.at_us > self.now_us).then_some(Delta::Settle)
    }

    /// What is held, for RL.INFO. `None` when nothing is.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        let next_end_us = self.now_us + self.until_us(self.first()?.end_us);
        Some(Summary {
            holders: self.holders() as u64,
            slots: self.used(),
            next_end_ms: ceil_ms(next_end_us),
        })
    }
}

/// `outcome`, but not before `until_us` (at least 1) microseconds have passed.
fn not_before(outcome: Outcome, until_us: u64) -> Outcome {
    let until_ms = i64::try_from(ceil_ms(until_us)).unwrap_or(i64::MAX);
    match outcome {
        Outcome::Admit { .. } => Outcome::Refuse { retry_after_ms: until_ms },
        Outcome::Refuse { retry_after_ms: -1 } => outcome,
        Outcome::Refuse { retry_after_ms } => {
            Outcome::Refuse { retry_after_ms: retry_after_ms.max(until_ms) }
        }
    }
}

impl Usage for View<'_> {
    fn used(&self) -> u64 {
        self.set.map_or(0, |set| set.order.slots() - self.ended.slots)
    }

    fn wait_us(&self, target: u64) -> u64 {
        let (Some(set), Some(excess)) = (self.set, self.used().checked_sub(target)) else {
            return 0;
        };
        if excess == 0 {
            return 0;
        }
        set.order.end_of(&self.ended, excess).map_or(0, |end_us| self.until_us(end_us))
    }

    fn reset_us(&self) -> u64 {
        self.set.map_or(0, |set| self.until_us(set.end_us()))
    }
}
