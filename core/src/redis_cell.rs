//! What CL.THROTTLE has in common with redis-cell: its verdicts, its seconds, and its stored strings.
//!
//! redis-cell stores one instant, the one at which nothing will be used any more. A bucket stores
//! how much is used and since when. At a given rate the two say the same:
//!
//! ```text
//!  used ┤█ now
//!       │ ▀▄       left = the stored instant − now
//!       │   ▀▄     used = left · rate
//!     0 ┼─────▀▄── the stored instant
//! ```

use crate::law::Usage;
use crate::units::{MAX_AMOUNT, digits};

/// How far a string's instant may lie from its key's expiry: redis-cell sets the expiry by another
/// reading of the clock, in whole milliseconds.
const EXPIRY_TOLERANCE_MS: u64 = 1_000;

/// The instant (Unix ns) that a string of redis-cell's holds; `None` if it is not one: redis-cell
/// writes decimal digits, and makes the key expire at that instant.
#[must_use]
pub fn stored_instant_ns(text: &[u8], expire_ms: u64) -> Option<u64> {
    let instant_ns = digits(text)?;
    let apart_ms = (instant_ns / 1_000_000).abs_diff(expire_ms);
    (apart_ms <= EXPIRY_TOLERANCE_MS).then_some(instant_ns)
}

/// What redis-cell answers to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead; charge the quantity, or give it back.
    Allowed,
    /// Nothing changes.
    Limited {
        /// Microseconds until the same call would be allowed; `None`: it never will.
        wait_us: Option<u64>,
    },
}

/// Decides as redis-cell does: allowed if what is used and the quantity fit the limit together.
///
/// As there, a limit below 1 is no error (nothing of cost 1 ever fits it), and a quantity below 0,
/// which gives back, is refused while more than the limit would still be in use.
#[must_use]
pub fn decide(usage: &impl Usage, limit: i64, quantity: i64) -> Decision {
    match u64::try_from(i128::from(limit) - i128::from(quantity)) {
        Err(_) => Decision::Limited { wait_us: None },
        Ok(target) if usage.used() <= target => Decision::Allowed,
        Ok(target) => Decision::Limited { wait_us: Some(usage.wait_us(target)) },
    }
}

/// The five integers of redis-cell's reply, with `usage` as it stands after the call: limited (0 or
/// 1), limit, remaining, seconds to wait (−1 when allowed, or for never), seconds to the reset.
#[must_use]
pub fn reply(usage: &impl Usage, limit: i64, decision: Decision) -> [i64; 5] {
    let (limited, wait_us) = match decision {
        Decision::Allowed => (0, None),
        Decision::Limited { wait_us } => (1, wait_us),
    };
    let used = i64::try_from(usage.used()).unwrap_or(i64::MAX);
    let remaining = limit.saturating_sub(used).max(0);
    [limited, limit, remaining, wait_us.map_or(-1, seconds), seconds(usage.reset_us())]
}

/// Whole seconds as redis-cell rounds them: what is below a millisecond is dropped, the rest is
/// rounded up.
fn seconds(us: u64) -> i64 {
    let seconds = (us / 1_000).div_ceil(1_000);
    i64::try_from(seconds.min(MAX_AMOUNT)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Bucket, View};
    use crate::units::Rate;
    use proptest::prelude::*;

    const NOW_US: u64 = 1_700_000_000_000_000;
    const NOW_MS: u64 = NOW_US / 1_000;

    #[test]
    fn a_string_must_be_digits_that_name_its_own_expiry() {
        let stored = |text: &str, expire_ms| stored_instant_ns(text.as_bytes(), expire_ms);
        let instant_ns = NOW_US * 1_000 + 999_999;
        let text = instant_ns.to_string();
        for expire_ms in [NOW_MS, NOW_MS + 1_000, NOW_MS - 1_000] {
            assert_eq!(stored(&text, expire_ms), Some(instant_ns));
        }
        for expire_ms in [0, NOW_MS + 1_001, NOW_MS - 1_001, u64::MAX] {
            assert_eq!(stored(&text, expire_ms), None);
        }
        for other in ["", "+1", "-1", "1.0", " 1", "1 ", "1e3", "x", "18446744073709551616"] {
            assert_eq!(stored(other, 0), None, "{other}");
        }
        assert_eq!(stored("0", 0), Some(0));
        assert_eq!(stored("18446744073709551615", 18_446_744_073_709), Some(u64::MAX));
    }

    #[test]
    fn seconds_are_rounded_up_from_whole_milliseconds() {
        for (us, rounded) in [
            (0, 0),
            (1, 0),
            (999, 0),
            (1_000, 1),
            (999_999, 1),
            (1_000_000, 1),
            (1_000_999, 1),
            (1_001_000, 2),
            (u64::MAX, 18_446_744_073_710),
        ] {
            assert_eq!(seconds(us), rounded, "{us}");
        }
    }

    /// redis-cell's arithmetic with one instant, in exact nanoseconds times `count`: so a unit takes
    /// exactly `period_ns`.
    #[derive(Clone, Copy, Debug)]
    struct Oracle {
        tat: i128,
        count: i128,
        period_ns: i128,
    }

    impl Oracle {
        fn at(&self, us: u64) -> i128 {
            i128::from(us) * 1_000 * self.count
        }

        /// Allowed, and the remaining units; the instant is moved. What would give back more than is
        /// used gives back just that.
        fn call(&mut self, now_us: u64, limit: i64, quantity: i64) -> (bool, i128) {
            let now = self.at(now_us);
            let unit = self.period_ns;
            let tat = self.tat.max(now);
            let next = tat + unit * i128::from(quantity);
            let allowed = next - unit * i128::from(limit) <= now;
            self.tat = if allowed { next.max(now) } else { tat };
            let left = unit * i128::from(limit) - (self.tat - now);
            (allowed, left.div_euclid(unit).max(0))
        }
    }

    proptest! {
        #[test]
        fn decides_as_redis_cell(
            count in prop::sample::select(vec![1u64, 2, 4, 5, 10, 25, 40, 125, 250]),
            period_s in 1..400u64,
            calls in prop::collection::vec((0..20u64, -2..12i64, -4..14i64), 1..40),
        ) {
            let rate = Rate::per_seconds(count, period_s).unwrap();
            let period_ns = i128::from(period_s) * 1_000_000_000;
            let mut oracle = Oracle { tat: 0, count: count.into(), period_ns };
            let mut bucket: Option<Bucket> = None;
            let mut now_us = NOW_US;
            for (quarters, limit, quantity) in calls {
                // In quarters of a unit a bucket is exact to the last bit, as the oracle is.
                now_us += quarters * (period_s * 1_000_000 / count / 4);
                let before = oracle;
                let view = View::new(bucket, rate, now_us);
                let decision = decide(&view, limit, quantity);
                let (allowed, remaining) = oracle.call(now_us, limit, quantity);
                prop_assert_eq!(decision == Decision::Allowed, allowed);
                if allowed && quantity > 0 {
                    bucket = Some(view.charge(quantity.unsigned_abs()));
                } else if allowed && quantity < 0 {
                    match view.refund(quantity.unsigned_abs()) {
                        Some(crate::state::Delta::Bucket(next)) => bucket = Some(next),
                        Some(_) => bucket = None,
                        None => {}
                    }
                }
                let after = View::new(bucket, rate, now_us);
                prop_assert_eq!(i128::from(reply(&after, limit, decision)[2]), remaining);
                if let Decision::Limited { wait_us } = decision {
                    prop_assert_eq!(wait_us.is_none(), quantity > limit);
                    if let Some(wait_us) = wait_us {
                        let mut later = before;
                        prop_assert!(later.call(now_us + wait_us, limit, quantity).0);
                        let mut early = before;
                        prop_assert!(!early.call(now_us + wait_us - 1, limit, quantity).0);
                    }
                }
            }
        }

        #[test]
        fn a_string_becomes_a_bucket_with_the_same_remaining_time(
            left_ns in 1..400_000_000_000_000u64,
            count in 1..1_000_000u64,
            period_s in 1..100_000u64,
        ) {
            let rate = Rate::per_seconds(count, period_s).unwrap();
            let bucket = Bucket::until_ns(NOW_US * 1_000 + left_ns, rate, NOW_US).unwrap();
            let reset_us = View::new(Some(bucket), rate, NOW_US).reset_us();
            // Rounded up: to a microsecond, and `used` to 2^-32 unit.
            let unit_us = period_s * 1_000_000 / count;
            let most_us = left_ns.div_ceil(1_000) + (unit_us >> 32) + 1;
            prop_assert!((left_ns.div_ceil(1_000)..=most_us).contains(&reset_us));
        }
    }

    #[test]
    fn a_string_of_the_past_is_no_bucket() {
        let rate = Rate::per_seconds(1, 1).unwrap();
        assert_eq!(Bucket::until_ns(NOW_US * 1_000, rate, NOW_US), None);
        assert_eq!(Bucket::until_ns(0, rate, NOW_US), None);
        let longest =
            Bucket::until_ns(u64::MAX, Rate::per_seconds(u64::MAX >> 1, 1 << 40).unwrap(), 0);
        assert!(longest.unwrap().used_at_last_charge() <= MAX_AMOUNT);
    }

    #[test]
    fn no_limit_or_quantity_overflows() {
        let rate = Rate::per_seconds(1, 1).unwrap();
        let empty = View::new(None, rate, NOW_US);
        let never = Decision::Limited { wait_us: None };
        assert_eq!(decide(&empty, 1, i64::MAX), never);
        assert_eq!(decide(&empty, i64::MIN, i64::MAX), never);
        assert_eq!(decide(&empty, i64::MAX, i64::MIN), Decision::Allowed);
        assert_eq!(decide(&empty, 0, 0), Decision::Allowed);
        assert_eq!(decide(&empty, 0, 1), never);
        assert_eq!(reply(&empty, i64::MIN, never), [1, i64::MIN, 0, -1, 0]);
    }
}
