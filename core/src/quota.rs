//! Calendar quota: at most `limit` units per calendar period.
//!
//! ```text
//!  used
//!   5 ┤         ▄▄▄▄▄▄▄▄▄▄  charge 3
//!   2 ┤   ▄▄▄▄▄▄██████████  charge 2
//!     ┼───┴─────┴─────────┬───────────────
//!  start_ms             end_ms: all is free again, at once
//! ```
//!
//! The bounds of the period are stored with what is used in it. A stored period governs until its
//! own end, whatever the zone or anchor of a later call, so nobody gains a second quota by changing
//! them; only when nothing governs are the bounds of the call computed. That holds also when the
//! clock steps back before the stored start: a quota has no clock rule. Only a period that starts
//! more than its own length ahead of now, left by a grossly wrong clock, is void.

use crate::law::Usage;
use crate::units::{MAX_AMOUNT, MAX_INSTANT_US};
use crate::wire::{Invalid, Sink, Source};
use core::num::NonZeroU64;

/// No period is longer: 366 days, and one more where a place moves across the date line.
const MAX_PERIOD_MS: u64 = 367 * 86_400_000;

/// What is used of a quota, and in which period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The period, `[start_ms, end_ms)` in Unix milliseconds.
    start_ms: u64,
    end_ms: u64,
    /// Units used in it.
    used: NonZeroU64,
}

impl Quota {
    /// The first instant (Unix ms) of the stored period.
    #[must_use]
    pub const fn start_ms(&self) -> u64 {
        self.start_ms
    }

    /// From this instant on (Unix ms) nothing is used any more.
    #[must_use]
    pub const fn end_ms(&self) -> u64 {
        self.end_ms
    }

    /// Units used in the stored period.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used.get()
    }

    /// Whether nothing is used any more at `now_us`: the period is over, or void because it starts
    /// more than its own length ahead.
    #[must_use]
    pub const fn has_ended(&self, now_us: u64) -> bool {
        let length_ms = self.end_ms - self.start_ms;
        let void = self.start_ms.saturating_mul(1000)
            > now_us.saturating_add(length_ms.saturating_mul(1000));
        void || now_us >= self.end_ms.saturating_mul(1000)
    }

    /// Memory beside the struct itself.
    #[must_use]
    pub const fn heap_bytes(&self) -> usize {
        0
    }

    /// Appends the encoding: used units, start, length.
    pub fn encode(&self, out: &mut impl Sink) {
        out.put_int(self.used.get());
        out.put_int(self.start_ms);
        out.put_int(self.end_ms - self.start_ms);
    }

    /// Reads what [`Quota::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have stored.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        Delta::decode(source)?.0.ok_or(Invalid)
    }
}

/// What a call changes: the quota as it is afterwards, none when nothing is used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta(Option<Quota>);

impl Delta {
    /// Whether it lengthens a list in the state: never.
    #[must_use]
    pub const fn grows(&self) -> bool {
        false
    }

    /// Appends the encoding: that of the quota, or used units 0 and nothing else.
    pub fn encode(&self, out: &mut impl Sink) {
        match &self.0 {
            Some(quota) => quota.encode(out),
            None => out.put_int(0),
        }
    }

    /// Reads what [`Delta::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have made.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        let Some(used) = NonZeroU64::new(source.int(MAX_AMOUNT)?) else {
            return Ok(Self(None));
        };
        let start_ms = source.int(MAX_INSTANT_US / 1000)?;
        let length_ms = source.int(MAX_PERIOD_MS)?;
        if length_ms == 0 {
            return Err(Invalid);
        }
        Ok(Self(Some(Quota { start_ms, end_ms: start_ms + length_ms, used })))
    }
}

/// Makes `state` what `delta` says, as of `now_us`, the instant of the server that decided.
///
/// # Errors
/// None today: a [`Delta`] that exists is valid.
pub fn apply(state: &mut Option<Quota>, delta: &Delta, now_us: u64) -> Result<(), Invalid> {
    *state = delta.0.filter(|quota| !quota.has_ended(now_us));
    Ok(())
}

/// A quota seen at one instant.
#[derive(Clone, Copy, Debug)]
pub struct View {
    start_ms: u64,
    end_ms: u64,
    used: u64,
    now_us: u64,
}

impl View {
    /// Sees `state` at `now_us`. `bounds` gives `(start_ms, end_ms)` of the calendar period that
    /// contains `now_us` in the zone of the call; it is asked only when no stored period governs.
    #[must_use]
    pub fn new(state: Option<&Quota>, bounds: impl FnOnce() -> (u64, u64), now_us: u64) -> Self {
        match state.filter(|quota| !quota.has_ended(now_us)) {
            Some(quota) => Self {
                start_ms: quota.start_ms,
                end_ms: quota.end_ms,
                used: quota.used.get(),
                now_us,
            },
            None => {
                let (start_ms, end_ms) = bounds();
                Self { start_ms, end_ms, used: 0, now_us }
            }
        }
    }

    /// Charges `units` (at least 1) that the law admitted.
    #[must_use]
    pub fn charge(&self, units: u64) -> Delta {
        self.with_used(self.used.saturating_add(units).min(MAX_AMOUNT))
    }

    /// The view once `delta`, a charge, is made.
    #[must_use]
    pub fn after(&self, delta: &Delta) -> Self {
        Self { used: delta.0.map_or(0, |quota| quota.used.get()), ..*self }
    }

    /// Gives back `units` that were charged `age_us` ago. `None` when nothing changes: nothing is
    /// used, or the period has opened since.
    #[must_use]
    pub fn refund(&self, units: u64, age_us: u64) -> Option<Delta> {
        let charged_us = self.now_us.saturating_sub(age_us);
        // A period that starts in the future (the clock stepped back) governs charges made now.
        let opened_us = self.start_ms.saturating_mul(1000).min(self.now_us);
        let changes = self.used > 0 && units > 0 && opened_us <= charged_us;
        changes.then(|| self.with_used(self.used.saturating_sub(units)))
    }

    /// The clock rule: a quota has none.
    #[must_use]
    pub const fn settle(&self) -> Option<Delta> {
        None
    }

    fn with_used(&self, used: u64) -> Delta {
        let quota = |used| Quota { start_ms: self.start_ms, end_ms: self.end_ms, used };
        Delta(NonZeroU64::new(used).map(quota))
    }
}

impl Usage for View {
    fn used(&self) -> u64 {
        self.used
    }

    fn wait_us(&self, target: u64) -> u64 {
        if self.used > target { self.reset_us() } else { 0 }
    }

    fn reset_us(&self) -> u64 {
        self.end_ms.saturating_mul(1000).saturating_sub(self.now_us)
    }
}
