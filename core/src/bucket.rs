//! Token bucket.
//!
//! What is stored is what is *used*, not what is left, so a changed burst or rate takes effect on
//! the very next call:
//!
//! ```text
//!  used
//!   5 ┤█ charge 5 at `at_us`
//!     │ ▀▄              refill: used(t) = used − rate · (t − at_us), never below 0
//!   2 ┤   ▀▄ - - - - -  a call of cost c is admitted as soon as used(t) ≤ burst − c
//!     │     ▀▄
//!   0 ┼───────▀▄─────── `end_ms`: nothing is used any more, the state is void
//! ```
//!
//! `used` is a fixed-point number with 32 binary fraction digits. A charge rounds it up by less than
//! 2^-32 unit, so rounding never admits more, and costs at most 1 part in 4·10^9 of what is charged.
//! A refusal stores nothing, so polling cannot slow the refill. Waits are computed from the stored
//! instant, never from a rounded level, so they are exact.

use crate::law::Usage;
use crate::state::Delta;
use crate::units::{MAX_AMOUNT, MAX_INSTANT_US, Rate};
use crate::wide::{mul_div_ceil, mul_div_shift_ceil, mul_shift_div};
use crate::wire::{Invalid, Sink, Source};

mod packed;

pub use packed::{CompactBucket, PackedBucket};

/// Binary fraction digits of `used`.
const FRACTION: u32 = 32;
/// `end − at` in milliseconds takes 43 bits when packed; all ones means "at [`MAX_AMOUNT`]".
const LIFE_BITS: u32 = 43;
const LIFE_FOREVER: u64 = (1 << LIFE_BITS) - 1;
const USED_BITS: u32 = 53 + FRACTION;

/// What is used of a bucket, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Units in use at `at_us`, times 2^32. Never 0 when stored.
    used: u128,
    /// The instant of the last charge.
    at_us: u64,
    /// From this instant on (Unix ms) nothing is used; set by the rate of the last charge.
    end_ms: u64,
}

impl Bucket {
    /// A bucket whose end follows from `rate`.
    fn new(used: u128, at_us: u64, rate: Rate) -> Self {
        let end_ms = at_us.saturating_add(time_to_refill_us(used, rate)).div_ceil(1000);
        Self { used, at_us, end_ms: packable_end_ms(end_ms, at_us) }
    }

    /// The bucket of which, at `rate`, nothing is used any more at `instant_ns` (Unix ns); rounded up
    /// like a charge. `None` when that is past.
    #[must_use]
    pub fn until_ns(instant_ns: u64, rate: Rate, now_us: u64) -> Option<Self> {
        let left_ns = u128::from(instant_ns).checked_sub(u128::from(now_us) * 1000)?;
        let (units, micros) = rate.fraction();
        let used = mul_div_ceil(left_ns, units << FRACTION, micros * 1000);
        let used = used.min(u128::from(MAX_AMOUNT) << FRACTION);
        (used > 0).then(|| Self::new(used, now_us, rate))
    }

    /// From this instant on (Unix ms) nothing is used any more.
    #[must_use]
    pub const fn end_ms(&self) -> u64 {
        self.end_ms
    }

    /// The same in microseconds.
    #[must_use]
    pub const fn end_us(&self) -> u64 {
        self.end_ms.saturating_mul(1000)
    }

    /// The instant of the last charge.
    #[must_use]
    pub const fn at_us(&self) -> u64 {
        self.at_us
    }

    /// Whole units in use at the last charge, rounded up.
    #[must_use]
    pub fn used_at_last_charge(&self) -> u64 {
        ceil_units(self.used)
    }

    /// Whether nothing is used any more at `now_us`.
    #[must_use]
    pub const fn has_ended(&self, now_us: u64) -> bool {
        now_us / 1000 >= self.end_ms
    }

    /// The clock rule: when `at_us` lies in the future, the bucket moved back to now.
    #[must_use]
    pub const fn moved_back(&self, now_us: u64) -> Option<Self> {
        if self.at_us <= now_us {
            return None;
        }
        // The end moves by whole milliseconds, rounded so that it is never early.
        let end_ms = match self.end_ms {
            MAX_AMOUNT => MAX_AMOUNT,
            end_ms => end_ms - (self.at_us - now_us) / 1000,
        };
        Some(Self { used: self.used, at_us: now_us, end_ms: packable_end_ms(end_ms, now_us) })
    }

    /// Appends the encoding: used units, fraction, instant, end.
    pub fn encode(&self, out: &mut impl Sink) {
        out.put_int((self.used >> FRACTION) as u64);
        out.put(&(self.used as u32).to_le_bytes());
        out.put_int(self.at_us);
        out.put_int(self.end_ms);
    }

    /// Reads what [`Bucket::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have stored.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        let units = source.int(MAX_AMOUNT)?;
        let fraction = source.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| Invalid)?;
        let used = (u128::from(units) << FRACTION) | u128::from(fraction);
        let bucket =
            Self { used, at_us: source.int(MAX_INSTANT_US)?, end_ms: source.int(MAX_AMOUNT)? };
        let life_ms = bucket.end_ms.checked_sub(bucket.at_us / 1000).ok_or(Invalid)?;
        let plausible = used > 0
            && used <= u128::from(MAX_AMOUNT) << FRACTION
            && (life_ms < LIFE_FOREVER || bucket.end_ms == MAX_AMOUNT);
        if plausible { Ok(bucket) } else { Err(Invalid) }
    }
}

/// A bucket seen at one instant by a call with its own rate.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The state, moved back if it lay in the future; `used` 0 when missing or ended.
    bucket: Bucket,
    /// Units in use now, times 2^32.
    used_now: u128,
    rate: Rate,
    now_us: u64,
    /// Whether the clock rule moved it.
    moved: bool,
}

impl View {
    /// Sees `bucket` (none: a full one) at `now_us`.
    #[must_use]
    pub fn new(bucket: Option<Bucket>, rate: Rate, now_us: u64) -> Self {
        let moved_back = bucket.and_then(|bucket| bucket.moved_back(now_us));
        let bucket = match moved_back.or(bucket) {
            Some(bucket) => bucket,
            None => Bucket { used: 0, at_us: now_us, end_ms: 0 },
        };
        let used_now = if bucket.has_ended(now_us) {
            0
        } else {
            bucket.used.saturating_sub(refill(now_us - bucket.at_us, rate))
        };
        Self { bucket, used_now, rate, now_us, moved: moved_back.is_some() }
    }

    /// The bucket after `units` more are charged now.
    #[must_use]
    #[inline]
    pub fn charge(&self, units: u64) -> Bucket {
        Bucket::new(self.used_now + (u128::from(units) << FRACTION), self.now_us, self.rate)
    }

    /// The view once a charge has made it `bucket`.
    #[must_use]
    pub const fn after(&self, bucket: Bucket) -> Self {
        Self { used_now: bucket.used, bucket, moved: false, ..*self }
    }

    /// The bucket that the clock rule moves back to now, also under a refusal.
    #[must_use]
    pub fn settle(&self) -> Option<Bucket> {
        self.moved.then_some(self.bucket)
    }

    /// The change that gives `units` (at least 1) back. `None` when nothing is used.
    ///
    /// Taking them from what was used at the last charge equals taking them now, and leaves no trace
    /// of a charge that is undone.
    #[must_use]
    pub fn refund(&self, units: u64) -> Option<Delta> {
        if self.used_now == 0 {
            return None;
        }
        let refilled = self.bucket.used - self.used_now;
        let used = self.bucket.used.saturating_sub(u128::from(units) << FRACTION);
        Some(if used > refilled {
            Delta::Bucket(Bucket::new(used, self.bucket.at_us, self.rate))
        } else {
            Delta::Forget
        })
    }
}

impl Usage for View {
    fn used(&self) -> u64 {
        ceil_units(self.used_now)
    }

    fn wait_us(&self, target: u64) -> u64 {
        let target = u128::from(target) << FRACTION;
        if self.used_now <= target {
            return 0;
        }
        // At the stored end nothing is used, even where the rate of this call is slower.
        let until_end_us = match self.bucket.end_ms {
            MAX_AMOUNT => u64::MAX,
            end_ms => end_ms.saturating_mul(1000).saturating_sub(self.now_us),
        };
        let refill_us = time_to_refill_us(self.bucket.used - target, self.rate);
        (refill_us - (self.now_us - self.bucket.at_us)).min(until_end_us)
    }

    fn reset_us(&self) -> u64 {
        self.wait_us(0)
    }
}

/// The end that the packed form can hold: one too far away is [`MAX_AMOUNT`].
const fn packable_end_ms(end_ms: u64, at_us: u64) -> u64 {
    if end_ms.saturating_sub(at_us / 1000) >= LIFE_FOREVER { MAX_AMOUNT } else { end_ms }
}

/// What refills in `elapsed_us`, times 2^32, rounded down.
fn refill(elapsed_us: u64, rate: Rate) -> u128 {
    let (units, micros) = rate.fraction();
    if elapsed_us == 0 { 0 } else { mul_shift_div(elapsed_us, units, FRACTION, micros) }
}

/// The microseconds in which `used` (times 2^32) refills, rounded up, `u64::MAX` when that is more.
fn time_to_refill_us(used: u128, rate: Rate) -> u64 {
    let (units, micros) = rate.fraction();
    u64::try_from(mul_div_shift_ceil(used, micros, units, FRACTION)).unwrap_or(u64::MAX)
}

fn ceil_units(used: u128) -> u64 {
    u64::try_from(used.div_ceil(1 << FRACTION)).unwrap_or(u64::MAX)
}
