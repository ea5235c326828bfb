//! What a call changes in a log: at most one entry is sent, never the log.

use super::{Log, MAX_ENTRIES, MAX_STAMP_MS, View, is_free};
use crate::law::Usage;
use crate::units::{MAX_AMOUNT, MAX_INSTANT_US};
use crate::wire::{Invalid, Sink, Source};

/// What a call changes: first a move by the clock rule, then what it charged or gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// All stamps move back until the newest is this one.
    pub(super) newest_ms: Option<u64>,
    pub(super) change: Option<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The newest entry is the one at `stamp_ms`, and counts `units`.
    Charge { stamp_ms: u64, units: u64 },
    /// What is older than the entry at `stamp_ms` is gone; that one counts `units`.
    Refund { stamp_ms: u64, units: u64 },
    /// All is gone.
    Gone,
}

const CHARGE: u8 = 1;
const REFUND: u8 = 2;
const GONE: u8 = 3;
/// Added when stamps move.
const MOVE: u8 = 4;

impl Delta {
    /// Appends the encoding: what it is, the newest stamp if stamps move, then stamp and units.
    pub fn encode(&self, out: &mut impl Sink) {
        let (kind, entry) = match self.change {
            None => (0, None),
            Some(Change::Charge { stamp_ms, units }) => (CHARGE, Some((stamp_ms, units))),
            Some(Change::Refund { stamp_ms, units }) => (REFUND, Some((stamp_ms, units))),
            Some(Change::Gone) => (GONE, None),
        };
        out.put_u8(if self.newest_ms.is_some() { kind | MOVE } else { kind });
        if let Some(newest_ms) = self.newest_ms {
            out.put_int(newest_ms);
        }
        if let Some((stamp_ms, units)) = entry {
            out.put_int(stamp_ms);
            out.put_int(units);
        }
    }

    /// Reads what [`Delta::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have sent.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        let kind = source.u8()?;
        let newest_ms = if kind & MOVE == 0 { None } else { Some(source.int(MAX_STAMP_MS)?) };
        let change = match kind {
            MOVE => None,
            GONE => Some(Change::Gone),
            CHARGE | REFUND | 5 | 6 => {
                let (stamp_ms, units) = (source.int(MAX_STAMP_MS)?, source.int(MAX_AMOUNT)?);
                if units == 0 {
                    return Err(Invalid);
                }
                Some(if kind & !MOVE == CHARGE {
                    Change::Charge { stamp_ms, units }
                } else {
                    Change::Refund { stamp_ms, units }
                })
            }
            _ => return Err(Invalid),
        };
        Ok(Self { newest_ms, change })
    }
}

/// Makes `delta` so, and drops what is free at `now_us`, the instant that came with it.
///
/// # Errors
/// [`Invalid`], with `state` unchanged, when the delta does not fit the log: more than [`MAX_AMOUNT`]
/// units or [`MAX_ENTRIES`] entries, a charge older than the newest entry or free already, a refund
/// of an entry that is not there or counts less, a move forward.
pub fn apply(
    state: &mut Option<Log>,
    length_ms: u64,
    delta: &Delta,
    now_us: u64,
) -> Result<(), Invalid> {
    let now_us = now_us.min(MAX_INSTANT_US);
    let back_ms = match (delta.newest_ms, state.as_ref()) {
        (None, _) => 0,
        (Some(to_ms), Some(log)) => log.newest_ms().checked_sub(to_ms).ok_or(Invalid)?,
        (Some(_), None) => return Err(Invalid),
    };
    check(&View::moved_back(state.as_ref(), back_ms, length_ms, now_us), delta.change)?;
    // Nothing fails from here on.
    let log = state.get_or_insert_with(Log::empty);
    if back_ms > 0 {
        log.move_back(back_ms);
    }
    log.prune(length_ms, now_us);
    match delta.change {
        Some(Change::Charge { stamp_ms, units }) => log.set_newest(stamp_ms, units),
        Some(Change::Refund { stamp_ms, units }) => log.keep_from(stamp_ms, units),
        Some(Change::Gone) => log.entries.clear(),
        None => {}
    }
    if log.entries.is_empty() {
        *state = None;
    } else {
        log.shrink();
    }
    Ok(())
}

/// Whether `change` fits the log that `view` sees.
fn check(view: &View, change: Option<Change>) -> Result<(), Invalid> {
    let fits = match change {
        None | Some(Change::Gone) => true,
        Some(Change::Refund { stamp_ms, units }) => {
            units > 0 && view.units_at(stamp_ms).is_some_and(|counted| units <= counted)
        }
        Some(Change::Charge { stamp_ms, units }) => {
            let used = match view.newest() {
                Some((newest_ms, counted)) if newest_ms == stamp_ms => view.used() - counted,
                Some((newest_ms, _)) if newest_ms > stamp_ms => return Err(Invalid),
                _ if view.live() >= MAX_ENTRIES => return Err(Invalid),
                _ => view.used(),
            };
            let in_use = !is_free(stamp_ms, view.length_ms, view.now_us);
            units > 0 && in_use && used.saturating_add(units) <= MAX_AMOUNT
        }
    };
    if fits { Ok(()) } else { Err(Invalid) }
}
