//! How a bucket lies in memory.

use super::{Bucket, LIFE_FOREVER, USED_BITS};
use crate::units::MAX_AMOUNT;
use core::num::NonZeroU64;

/// Any bucket in 24 bytes, with a niche: one limit among several.
///
/// `life_ms` (43 bits) and `used` (53 + 32 bits) share the two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedBucket {
    at_us_plus_1: NonZeroU64,
    words: [u64; 2],
}

impl From<Bucket> for PackedBucket {
    fn from(bucket: Bucket) -> Self {
        let packed = (u128::from(life_ms(&bucket)) << USED_BITS) | bucket.used;
        Self {
            at_us_plus_1: NonZeroU64::MIN.saturating_add(bucket.at_us),
            words: [(packed >> 64) as u64, packed as u64],
        }
    }
}

impl From<PackedBucket> for Bucket {
    fn from(packed: PackedBucket) -> Self {
        let at_us = packed.at_us_plus_1.get() - 1;
        let both = (u128::from(packed.words[0]) << 64) | u128::from(packed.words[1]);
        let end_ms = match (both >> USED_BITS) as u64 {
            LIFE_FOREVER => MAX_AMOUNT,
            life_ms => at_us / 1000 + life_ms,
        };
        Self { used: both & ((1 << USED_BITS) - 1), at_us, end_ms }
    }
}

/// `end − at` in milliseconds.
const fn life_ms(bucket: &Bucket) -> u64 {
    match bucket.end_ms {
        MAX_AMOUNT => LIFE_FOREVER,
        end_ms => end_ms - bucket.at_us / 1000,
    }
}

/// Most buckets in 16 bytes, with a niche: the only limit of a key.
///
/// ```text
///  127      78 77  75 74                               0
///  ┌──────────┬──────┬──────────────┬───────────────────┐
///  │ at_us    │ split│ life_ms      │ used              │
///  │ − 2020+1 │ s    │ 8 + 5s bits  │ 35 − 5s + 32 bits │
///  └──────────┴──────┴──────────────┴───────────────────┘
/// ```
///
/// What refills soon may use much, and what uses little may last: 33 million units for four minutes,
/// a million for two hours, 32,768 for three days. A bucket that fits nowhere, or was charged before
/// 2020 or after 2055, takes the larger form. The small one has the size of the server's own objects
/// around it and is allocated with them, so they mostly share a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactBucket {
    /// Not 0, because `at_us` counts from 1.
    high: NonZeroU64,
    low: u64,
}

/// 2020-01-01.
const EPOCH_US: u64 = 1_577_836_800_000_000;
const AT_BITS: u32 = 50;
const SPLIT_BITS: u32 = 3;
/// What `life_ms` and `used` share.
const REST_BITS: u32 = u128::BITS - AT_BITS - SPLIT_BITS;
const LEAST_LIFE_BITS: u32 = 8;
const SPLIT_STEP: u32 = 5;
const LAST_SPLIT: u32 = (1 << SPLIT_BITS) - 1;

const fn used_bits(split: u32) -> u32 {
    REST_BITS - LEAST_LIFE_BITS - SPLIT_STEP * split
}

impl CompactBucket {
    /// The small form of `bucket`, if it has one.
    #[must_use]
    pub fn new(bucket: &Bucket) -> Option<Self> {
        let at = bucket.at_us.checked_sub(EPOCH_US)? + 1;
        let life_ms = life_ms(bucket);
        if life_ms == LIFE_FOREVER {
            return None;
        }
        let life_bits = u64::BITS - life_ms.leading_zeros();
        let split = life_bits.saturating_sub(LEAST_LIFE_BITS).div_ceil(SPLIT_STEP);
        if at >> AT_BITS != 0 || split > LAST_SPLIT || bucket.used >> used_bits(split) != 0 {
            return None;
        }
        let packed = (u128::from(at) << (SPLIT_BITS + REST_BITS))
            | (u128::from(split) << REST_BITS)
            | (u128::from(life_ms) << used_bits(split))
            | bucket.used;
        NonZeroU64::new((packed >> 64) as u64).map(|high| Self { high, low: packed as u64 })
    }
}

impl From<CompactBucket> for Bucket {
    fn from(compact: CompactBucket) -> Self {
        let packed = (u128::from(compact.high.get()) << 64) | u128::from(compact.low);
        let at_us = (packed >> (SPLIT_BITS + REST_BITS)) as u64 - 1 + EPOCH_US;
        let used_bits = used_bits((packed >> REST_BITS) as u32 & LAST_SPLIT);
        let life_ms = ((packed & ((1 << REST_BITS) - 1)) >> used_bits) as u64;
        let used = packed & ((1 << used_bits) - 1);
        Self { used, at_us, end_ms: at_us / 1000 + life_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MAX_INSTANT_US;
    use proptest::prelude::*;

    /// Numbers of every length, often with all bits set.
    fn up_to(most: u128) -> impl Strategy<Value = u128> {
        (0..u128::BITS, any::<u128>(), any::<bool>()).prop_map(move |(shift, bits, ones)| {
            (if ones { u128::MAX } else { bits } >> shift).min(most)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn nothing_is_lost(
            used in up_to(u128::from(MAX_AMOUNT) << 32),
            at_us in prop_oneof![
                up_to(u128::from(MAX_INSTANT_US)),
                up_to(1 << AT_BITS).prop_map(|at| (at + u128::from(EPOCH_US)).saturating_sub(2)),
            ],
            life in prop_oneof![9 => up_to(u128::from(LIFE_FOREVER - 1)), 1 => Just(u128::MAX)],
        ) {
            let at_us = at_us as u64;
            let end_ms = match u64::try_from(life) {
                Ok(life_ms) => at_us / 1000 + life_ms,
                Err(_) => MAX_AMOUNT,
            };
            let bucket = Bucket { used, at_us, end_ms };
            prop_assert_eq!(Bucket::from(PackedBucket::from(bucket)), bucket);
            if let Some(compact) = CompactBucket::new(&bucket) {
                prop_assert_eq!(Bucket::from(compact), bucket);
            }
        }
    }
}
