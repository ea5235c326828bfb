//! What a call changes: decided once, applied alike by the primary, its replicas and a replay.

use super::order::Lease;
use super::set::LeaseSet;
use super::{MAX_ID_BYTES, MAX_LEASES, MAX_TTL_US, View};
use crate::law::Usage;
use crate::units::{MAX_AMOUNT, MAX_INSTANT_US};
use crate::wire::{Invalid, Sink, Source};
use std::sync::Arc;

/// A change of a limit's leases.
///
/// Applying any of them at the instant `now_us` of the effect also settles the clock rule (the
/// newest instant is then at most `now_us`) and drops the leases that are over at `now_us`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// `id` holds `slots` until `end_us`, whatever it held before.
    Hold {
        /// The lease id, 1 to 128 bytes.
        id: Arc<[u8]>,
        /// Slots, at least 1.
        slots: u64,
        /// The end of the lease, after the instant of the effect.
        end_us: u64,
        /// Whether it is a new lease, not a longer or shorter one: see [`Delta::grows`].
        new: bool,
    },
    /// These ids, sorted, each once and at least one, hold nothing any more.
    Release(Vec<Arc<[u8]>>),
    /// Nothing but the clock rule.
    Settle,
}

const HOLD_HELD: u8 = 0;
const HOLD_NEW: u8 = 1;
const RELEASE: u8 = 2;
const SETTLE: u8 = 3;

impl Delta {
    /// Whether the set of leases becomes longer.
    #[must_use]
    pub const fn grows(&self) -> bool {
        matches!(self, Self::Hold { new: true, .. })
    }

    /// Appends the encoding: what it is, then its fields.
    pub fn encode(&self, out: &mut impl Sink) {
        match self {
            Self::Hold { id, slots, end_us, new } => {
                out.put_u8(if *new { HOLD_NEW } else { HOLD_HELD });
                out.put_bytes(id);
                out.put_int(*slots);
                out.put_int(*end_us);
            }
            Self::Release(ids) => {
                out.put_u8(RELEASE);
                out.put_int(ids.len() as u64);
                ids.iter().for_each(|id| out.put_bytes(id));
            }
            Self::Settle => out.put_u8(SETTLE),
        }
    }

    /// Reads what [`Delta::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have decided.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        match source.u8()? {
            kind @ (HOLD_HELD | HOLD_NEW) => Ok(Self::Hold {
                id: source.bytes(1..=MAX_ID_BYTES)?.into(),
                slots: at_least_1(source.int(MAX_AMOUNT)?)?,
                end_us: at_least_1(source.int(MAX_INSTANT_US + MAX_TTL_US)?)?,
                new: kind == HOLD_NEW,
            }),
            RELEASE => {
                let count = at_least_1(source.int(MAX_LEASES as u64)?)?;
                let mut ids = Vec::<Arc<[u8]>>::new();
                for _ in 0..count {
                    let id = source.bytes(1..=MAX_ID_BYTES)?;
                    if ids.last().is_some_and(|last| **last >= *id) {
                        return Err(Invalid);
                    }
                    ids.push(id.into());
                }
                Ok(Self::Release(ids))
            }
            SETTLE => Ok(Self::Settle),
            _ => Err(Invalid),
        }
    }
}

const fn at_least_1(value: u64) -> Result<u64, Invalid> {
    if value > 0 { Ok(value) } else { Err(Invalid) }
}

/// Applies `delta`, decided at `now_us`, and leaves `None` when nothing is held any more.
///
/// # Errors
/// [`Invalid`], with the state unchanged, for a hold that no call could have decided: not 1 to 128
/// bytes of id, no slots, an end that is not after `now_us` or more than 366 days after it, more than
/// 65,536 leases or 2^53 − 1 slots in all.
pub fn apply(state: &mut Option<LeaseSet>, delta: &Delta, now_us: u64) -> Result<(), Invalid> {
    let now_us = now_us.min(MAX_INSTANT_US);
    if let Delta::Hold { id, slots, end_us, .. } = delta {
        check_hold(&View::new(state.as_ref(), now_us), id, *slots, *end_us)?;
        state.get_or_insert_default();
    }
    let Some(set) = state else { return Ok(()) };
    set.settle_and_prune(now_us);
    match delta {
        Delta::Hold { id, slots, end_us, .. } => {
            set.newest_us = now_us;
            set.put(Lease { id: Arc::clone(id), slots: *slots, end_us: *end_us });
        }
        Delta::Release(ids) => ids.iter().for_each(|id| set.remove(id)),
        Delta::Settle => {}
    }
    if set.is_empty() {
        *state = None;
    } else {
        set.shrink();
    }
    Ok(())
}

fn check_hold(view: &View, id: &[u8], slots: u64, end_us: u64) -> Result<(), Invalid> {
    let (others, others_slots) = match view.held(id) {
        Some(held) => (view.holders() - 1, view.used() - held.slots),
        None => (view.holders(), view.used()),
    };
    let valid = (1..=MAX_ID_BYTES).contains(&id.len())
        && end_us > view.now_us
        && end_us - view.now_us <= MAX_TTL_US
        && others < MAX_LEASES
        && (1..=MAX_AMOUNT - others_slots).contains(&slots);
    if valid { Ok(()) } else { Err(Invalid) }
}
