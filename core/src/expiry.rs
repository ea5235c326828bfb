//! When a key expires: never before its limits have ended, and seldom touched.
//!
//! ```text
//!          end        end + slack            end + LATEST
//!  ─────────┼─────────────┼───────────────────────┼──────▶ t
//!  too early│   left alone; a fresh expiry is set │ far too late
//!           │             here                    │
//! ```
//!
//! Ended state is ignored by itself, so a late expiry costs memory for a little while and nothing
//! else, whereas setting it costs time on every call. A bucket that refills within milliseconds would
//! even be deleted and made anew on each call.

use crate::units::MAX_AMOUNT;

/// The least slack.
const LEAST_MS: u64 = 1_000;
/// The most slack.
const MOST_MS: u64 = 60_000;
/// An expiry later than this after the end is corrected.
const LATEST_MS: u64 = 2 * MOST_MS;

/// The expiry to set (Unix ms), `None` to leave `stored_ms` as it is. `stored_ms` is `None` for a key
/// without expiry, which PERSIST or RESTORE may leave: that is healed.
#[must_use]
pub fn correction_ms(end_us: u64, stored_ms: Option<u64>, now_us: u64) -> Option<u64> {
    let end_ms = end_us.div_ceil(1000).min(MAX_AMOUNT);
    if let Some(stored_ms) = stored_ms
        && (end_ms..=end_ms.saturating_add(LATEST_MS)).contains(&stored_ms)
    {
        return None;
    }
    let left_ms = end_ms.saturating_sub(now_us / 1000);
    let slack_ms = (left_ms / 4).clamp(LEAST_MS, MOST_MS);
    Some(end_ms.saturating_add(slack_ms).min(MAX_AMOUNT))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = 1_700_000_000_000_000;
    const NOW_MS: u64 = NOW_US / 1000;

    fn after(end_in_ms: u64, stored_in_ms: Option<u64>) -> Option<u64> {
        let stored_ms = stored_in_ms.map(|ms| NOW_MS + ms);
        correction_ms(NOW_US + end_in_ms * 1000, stored_ms, NOW_US).map(|at_ms| at_ms - NOW_MS)
    }

    #[test]
    fn a_fresh_expiry_has_slack() {
        assert_eq!(after(5, None), Some(1_005));
        assert_eq!(after(10_000, None), Some(12_500));
        assert_eq!(after(86_400_000, None), Some(86_460_000));
    }

    #[test]
    fn a_good_expiry_is_left_alone() {
        assert_eq!(after(5_000, Some(5_000)), None);
        assert_eq!(after(5_000, Some(125_000)), None);
        assert_eq!(after(5_000, Some(4_999)), Some(6_250));
        assert_eq!(after(5_000, Some(125_001)), Some(6_250));
    }

    #[test]
    fn the_far_future_is_capped() {
        assert_eq!(correction_ms(u64::MAX, None, NOW_US), Some(MAX_AMOUNT));
        assert_eq!(correction_ms(u64::MAX, Some(MAX_AMOUNT), NOW_US), None);
    }
}
