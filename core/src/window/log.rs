//! Log of admissions: one entry a millisecond, exact to the millisecond.
//!
//! ```text
//!  stamp_ms   1002   1003   1007   1010        an entry is free at stamp + length
//!  units         2      1      4      2
//!  through       5      6     10     12        running sum; `base` is 3: what went before
//!             └── in use: 12 − 3 = 9 ──┘
//! ```
//!
//! A stamp is the millisecond rounded up, so no unit is free before it is a window old, and no span
//! of the window's length sees more than the limit.
//!
//! Entries hold running sums instead of units. What any stretch of the log counts is then one
//! subtraction, and both "what is in use now" and "when will little enough be in use" are binary
//! searches: no call walks the log. Sums may wrap round: only differences matter, and all that is in
//! use is at most 2^53 − 1. A refund takes the oldest units by raising `base`.

use super::Summary;
use crate::law::Usage;
use crate::units::{MAX_AMOUNT, MAX_INSTANT_US};
use crate::wire::{Invalid, Sink, Source};
use std::collections::VecDeque;

mod delta;

use delta::Change;
pub use delta::{Delta, apply};

/// The most entries of a log, and so the largest limit of a window in this mode. Forced units beyond
/// join the newest entry.
pub const MAX_ENTRIES: usize = 65_536;

/// No stamp is larger.
const MAX_STAMP_MS: u64 = MAX_INSTANT_US.div_ceil(1000);
/// A log of at most as many entries keeps its memory.
const SMALL: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Entry {
    stamp_ms: u64,
    /// Running sum up to and with this entry.
    through: u64,
}

/// What was admitted, oldest first. Never empty when stored.
#[derive(Clone, Debug)]
pub struct Log {
    /// Strictly ascending stamps; each entry counts at least 1 unit.
    entries: VecDeque<Entry>,
    /// The running sum before the first entry.
    base: u64,
}

impl PartialEq for Log {
    /// Running sums may start anywhere: equal is what counts equally.
    fn eq(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self.stamps_and_units().eq(other.stamps_and_units())
    }
}

impl Eq for Log {}

impl Log {
    const fn empty() -> Self {
        Self { entries: VecDeque::new(), base: 0 }
    }

    /// From this instant on nothing is used any more.
    #[must_use]
    pub fn end_us(&self, length_ms: u64) -> u64 {
        self.newest_ms().saturating_add(length_ms).saturating_mul(1000)
    }

    /// How many entries it has.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    fn newest_ms(&self) -> u64 {
        self.entries.back().map_or(0, |newest| newest.stamp_ms)
    }

    /// The running sum before entry `at`.
    fn before(&self, at: usize) -> u64 {
        let previous = at.checked_sub(1).and_then(|previous| self.entries.get(previous));
        previous.map_or(self.base, |previous| previous.through)
    }

    fn stamps_and_units(&self) -> impl Iterator<Item = (u64, u64)> {
        self.entries.iter().scan(self.base, |before, entry| {
            let units = entry.through.wrapping_sub(*before);
            *before = entry.through;
            Some((entry.stamp_ms, units))
        })
    }

    /// Appends the encoding: number of entries, then of each the milliseconds since the one before
    /// (of the first its stamp) and its units.
    pub fn encode(&self, out: &mut impl Sink) {
        out.put_int(self.entries.len() as u64);
        let mut previous_ms = 0;
        for (stamp_ms, units) in self.stamps_and_units() {
            out.put_int(stamp_ms - previous_ms);
            out.put_int(units);
            previous_ms = stamp_ms;
        }
    }

    /// Reads what [`Log::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have stored.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        let len = source.int(MAX_ENTRIES as u64)? as usize;
        // A forged length alone must not cost memory: what is reserved early is small.
        let mut log = Self::empty();
        log.entries.reserve(len.min(1024));
        let (mut stamp_ms, mut through) = (0, 0);
        for at in 0..len {
            let gap_ms = source.int(MAX_STAMP_MS - stamp_ms)?;
            let units = source.int(MAX_AMOUNT - through)?;
            if units == 0 || (gap_ms == 0 && at > 0) {
                return Err(Invalid);
            }
            stamp_ms += gap_ms;
            through += units;
            log.entries.push_back(Entry { stamp_ms, through });
        }
        log.shrink();
        if len > 0 { Ok(log) } else { Err(Invalid) }
    }

    /// Moves all stamps back. Those before the epoch join one entry at 0.
    fn move_back(&mut self, by_ms: u64) {
        for entry in &mut self.entries {
            entry.stamp_ms = entry.stamp_ms.saturating_sub(by_ms);
        }
        let at_zero = self.entries.partition_point(|entry| entry.stamp_ms == 0);
        // The last of them counts through all of them, from the same base.
        self.entries.drain(..at_zero.saturating_sub(1));
    }

    /// Drops what is free at `now_us`.
    fn prune(&mut self, length_ms: u64, now_us: u64) {
        let free = self.entries.partition_point(|entry| is_free(entry.stamp_ms, length_ms, now_us));
        self.base = self.before(free);
        self.entries.drain(..free);
    }

    /// Drops all before the entry at `stamp_ms`, and the oldest units of it but `units`.
    fn keep_from(&mut self, stamp_ms: u64, units: u64) {
        let older = self.entries.partition_point(|entry| entry.stamp_ms < stamp_ms);
        self.entries.drain(..older);
        self.base = self.entries.front().map_or(0, |first| first.through.wrapping_sub(units));
    }

    /// Makes the entry at `stamp_ms`, the newest or a new one, count `units`.
    fn set_newest(&mut self, stamp_ms: u64, units: u64) {
        if self.entries.back().is_some_and(|newest| newest.stamp_ms == stamp_ms) {
            self.entries.pop_back();
        }
        let through = self.before(self.entries.len()).wrapping_add(units);
        self.entries.push_back(Entry { stamp_ms, through });
    }

    /// Gives memory back when three quarters lie idle; by halves, so that it is paid for by what
    /// was dropped.
    fn shrink(&mut self) {
        let (len, capacity) = (self.entries.len(), self.entries.capacity());
        if capacity > SMALL && len < capacity / 4 {
            self.entries.shrink_to(len * 2);
        }
    }
}

/// Whether an entry is free: `now ≥ stamp + length`, in whole milliseconds.
const fn is_free(stamp_ms: u64, length_ms: u64, now_us: u64) -> bool {
    stamp_ms.saturating_add(length_ms) <= now_us / 1000
}

/// A log seen at one instant.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The log, if any of it is in use.
    log: Option<&'a Log>,
    /// How far its stamps move back by the clock rule. They are never written here: a reader whose
    /// clock is a little slow meets this on each call, and a log may be long.
    back_ms: u64,
    /// The first entry that is not free.
    first: usize,
    length_ms: u64,
    now_us: u64,
}

impl<'a> View<'a> {
    /// Sees `state` at `now_us`.
    #[must_use]
    pub fn new(state: Option<&'a Log>, length_ms: u64, now_us: u64) -> Self {
        let now_us = now_us.min(MAX_INSTANT_US);
        let back_ms = state.map_or(0, |log| log.newest_ms().saturating_sub(now_us.div_ceil(1000)));
        Self::moved_back(state, back_ms, length_ms, now_us)
    }

    fn moved_back(state: Option<&'a Log>, back_ms: u64, length_ms: u64, now_us: u64) -> Self {
        let free =
            |entry: &Entry| is_free(entry.stamp_ms.saturating_sub(back_ms), length_ms, now_us);
        let first = state.map_or(0, |log| log.entries.partition_point(free));
        let log = state.filter(|log| first < log.entries.len());
        Self { log, back_ms, first, length_ms, now_us }
    }

    /// Charges `units` (at least 1) that the law admitted.
    #[must_use]
    pub fn charge(&self, units: u64) -> Delta {
        let now_ms = self.now_us.div_ceil(1000);
        let (stamp_ms, units) = match self.newest() {
            Some((newest_ms, count)) if newest_ms == now_ms || self.live() >= MAX_ENTRIES => {
                (newest_ms, count.saturating_add(units))
            }
            _ => (now_ms, units),
        };
        self.delta(Some(Change::Charge { stamp_ms, units }))
    }

    /// The move that the clock rule demands, if it does.
    #[must_use]
    pub fn settle(&self) -> Option<Delta> {
        self.log.filter(|_| self.back_ms > 0).map(|_| self.delta(None))
    }

    /// Gives back `units`, oldest first, that were charged `age_us` ago: nothing when that is the
    /// window's length or more. `None` when nothing changes.
    #[must_use]
    pub fn refund(&self, units: u64, age_us: u64) -> Option<Delta> {
        let Some(log) = self.log.filter(|_| units > 0 && age_us < super::length_us(self.length_ms))
        else {
            return self.settle();
        };
        if units >= self.used() {
            return Some(self.delta(Some(Change::Gone)));
        }
        let cut = log.before(self.first).wrapping_sub(log.base).saturating_add(units);
        let kept = |entry: &Entry| entry.through.wrapping_sub(log.base) > cut;
        let at = log.entries.partition_point(|entry| !kept(entry));
        let stamp_ms = self.stamp_ms(log.entries.get(at)?);
        // All entries that moved to the epoch count as one.
        let (_, end) = self.at(log, stamp_ms);
        let units = log.before(end).wrapping_sub(log.base) - cut;
        Some(self.delta(Some(Change::Refund { stamp_ms, units })))
    }

    /// Whether making `delta` so leaves more entries than there are now.
    #[must_use]
    pub fn grows(&self, delta: &Delta) -> bool {
        match delta.change {
            Some(Change::Charge { stamp_ms, .. }) => {
                let is_new = self.newest().is_none_or(|(newest_ms, _)| newest_ms < stamp_ms);
                is_new && self.first == 0
            }
            _ => false,
        }
    }

    /// What a person is shown; `None` when nothing is used.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        let log = self.log?;
        let since_ms = self.stamp_ms(log.entries.get(self.first)?);
        let until_ms = self.newest()?.0.saturating_add(self.length_ms);
        Some(Summary { used: self.used(), since_ms, until_ms })
    }

    fn delta(&self, change: Option<Change>) -> Delta {
        let moves = self.back_ms > 0 && change != Some(Change::Gone);
        let newest_ms = self.log.filter(|_| moves).map(|log| log.newest_ms() - self.back_ms);
        Delta { newest_ms, change }
    }

    /// The stamp of `entry` after the clock rule.
    const fn stamp_ms(&self, entry: &Entry) -> u64 {
        entry.stamp_ms.saturating_sub(self.back_ms)
    }

    /// From and up to which entry the stamp is `stamp_ms`; more than one only at 0.
    fn at(&self, log: &Log, stamp_ms: u64) -> (usize, usize) {
        let start = log.entries.partition_point(|entry| self.stamp_ms(entry) < stamp_ms);
        let end = log.entries.partition_point(|entry| self.stamp_ms(entry) <= stamp_ms);
        (start, end)
    }

    /// What the entry at `stamp_ms` counts, if it is in use.
    fn units_at(&self, stamp_ms: u64) -> Option<u64> {
        let log = self.log?;
        let (start, end) = self.at(log, stamp_ms);
        (start < end && start >= self.first)
            .then(|| log.before(end).wrapping_sub(log.before(start)))
    }

    /// Stamp and units of the newest entry in use.
    fn newest(&self) -> Option<(u64, u64)> {
        let stamp_ms = self.log?.newest_ms().saturating_sub(self.back_ms);
        Some((stamp_ms, self.units_at(stamp_ms)?))
    }

    /// How many entries are in use.
    fn live(&self) -> usize {
        self.log.map_or(0, |log| log.entries.len() - self.first)
    }
}

impl Usage for View<'_> {
    fn used(&self) -> u64 {
        let in_use = |log: &Log| log.before(log.entries.len()).wrapping_sub(log.before(self.first));
        self.log.map_or(0, in_use)
    }

    fn wait_us(&self, target: u64) -> u64 {
        let Some(log) = self.log.filter(|_| self.used() > target) else { return 0 };
        // After the entry that leaves little enough behind it.
        let through = log.before(log.entries.len());
        let at = log.entries.partition_point(|entry| through.wrapping_sub(entry.through) > target);
        let stamp_ms = log.entries.get(at).map_or(0, |entry| self.stamp_ms(entry));
        let free_us = stamp_ms.saturating_add(self.length_ms).saturating_mul(1000);
        free_us.saturating_sub(self.now_us)
    }

    fn reset_us(&self) -> u64 {
        self.wait_us(0)
    }
}
