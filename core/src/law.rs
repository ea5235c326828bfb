//! The one law by which every kind of limit admits, refuses and promises a wait.
//!
//! With `u` units in use, a call of `cost` that must leave `leave` units is admitted when
//! `u + cost + leave ≤ limit`, that is `u ≤ target` with `target = limit − cost − leave`. The same
//! rule covers cost 0: it is refused in debt and where LEAVE is not kept already. Limit 0 refuses
//! everything but FORCE. A kind only has to say how much is in use, and when that will have fallen
//! to a target.

use crate::units::{MAX_AMOUNT, ceil_ms};
use crate::verdict::Verdict;

/// What one limit knows of itself at one instant.
pub trait Usage {
    /// Units in use now, rounded up to whole units.
    fn used(&self) -> u64;
    /// Microseconds from now until at most `target` units are in use if nobody else consumes, exact
    /// (rounded up); 0 when that is so now.
    fn wait_us(&self, target: u64) -> u64;
    /// Microseconds until nothing is used any more; of a quota always until its period ends.
    fn reset_us(&self) -> u64;
}

/// How a call wants to be charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charging {
    /// The whole cost or nothing.
    Whole,
    /// In any case, also beyond the limit.
    Force,
    /// As many units of the cost as there are.
    UpTo,
    /// Now, if the tokens will be there within `ms` milliseconds.
    MaxWait {
        /// The longest acceptable wait.
        ms: u64,
    },
}

/// What a call asks of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Units to take; at least 1 with [`Charging::UpTo`].
    pub cost: u64,
    /// Units that must stay for others.
    pub leave: u64,
    /// How to charge.
    pub charging: Charging,
}

impl Ask {
    /// Takes the whole cost or nothing.
    #[must_use]
    pub const fn whole(cost: u64) -> Self {
        Self { cost, leave: 0, charging: Charging::Whole }
    }
}

/// What the law says to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Charge `units` and act after `wait_ms` (0 unless booked by MAXWAIT).
    Admit {
        /// Units to charge.
        units: u64,
        /// Milliseconds until the caller may act.
        wait_ms: u64,
    },
    /// Charge nothing; the same call succeeds after `retry_after_ms`, −1 for never.
    Refuse {
        /// Milliseconds, rounded up, at least 1, or −1.
        retry_after_ms: i64,
    },
}

/// The charge would lift what is used above 2^53 − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// Decides without changing anything.
///
/// # Errors
/// [`Overflow`] when an admitted charge would lift what is used above [`MAX_AMOUNT`].
#[inline(always)]
pub fn decide(usage: &impl Usage, limit: u64, ask: &Ask) -> Result<Outcome, Overflow> {
    if ask.charging == Charging::Force {
        return admit(usage, ask.cost, 0);
    }
    let needed = if ask.charging == Charging::UpTo { 1 } else { ask.cost };
    let target = limit.checked_sub(needed).and_then(|rest| rest.checked_sub(ask.leave));
    let Some(target) = target.filter(|_| limit > 0) else {
        return Ok(Outcome::Refuse { retry_after_ms: -1 });
    };
    let used = usage.used();
    if used <= target {
        let units = match ask.charging {
            Charging::UpTo => ask.cost.min(limit - ask.leave - used),
            _ => ask.cost,
        };
        // No overflow: within the limit.
        return Ok(Outcome::Admit { units, wait_ms: 0 });
    }
    let wait_us = usage.wait_us(target);
    if let Charging::MaxWait { ms } = ask.charging {
        return match wait_us.checked_sub(ms * 1000).filter(|&rest_us| rest_us > 0) {
            None => admit(usage, ask.cost, ceil_ms(wait_us)),
            Some(rest_us) => Ok(refuse(rest_us)),
        };
    }
    Ok(refuse(wait_us))
}

#[inline]
fn admit(usage: &impl Usage, units: u64, wait_ms: u64) -> Result<Outcome, Overflow> {
    match usage.used().checked_add(units) {
        Some(used) if used <= MAX_AMOUNT => Ok(Outcome::Admit { units, wait_ms }),
        _ => Err(Overflow),
    }
}

#[inline]
fn refuse(wait_us: u64) -> Outcome {
    Outcome::Refuse { retry_after_ms: i64::try_from(ceil_ms(wait_us)).unwrap_or(i64::MAX) }
}

/// The five integers for `outcome`, with `usage` as it stands after the call (unchanged by a refusal).
#[must_use]
#[inline(always)]
pub fn verdict(usage: &impl Usage, limit: u64, charging: Charging, outcome: Outcome) -> Verdict {
    let (allowed, retry_after_ms) = match outcome {
        Outcome::Admit { units, wait_ms } => {
            let allowed = if charging == Charging::UpTo { units } else { 1 };
            (allowed, i64::try_from(wait_ms).unwrap_or(i64::MAX))
        }
        Outcome::Refuse { retry_after_ms } => (0, retry_after_ms),
    };
    Verdict {
        allowed,
        limit,
        remaining: limit.saturating_sub(usage.used()),
        retry_after_ms,
        reset_after_ms: ceil_ms(usage.reset_us()),
    }
}
