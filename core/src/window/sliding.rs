//! Sliding window: 17 counters of a sixteenth of the window, on a grid from the Unix epoch.
//!
//! ```text
//!            ├───── window = 16 sub-windows, less what rounding up adds ─────┤
//!  ──┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬─▶ t
//!    │   │ 3 │   │ 2 │   │   │   │   │   │   │   │   │   │   │   │   │ 1 │   │
//!  ──┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴─
//!            ▲ end of sub-window i                      its 3 units are free ▲
//! ```
//!
//! A sub-window is `s = ⌈window ÷ 16⌉` µs long; `t` lies in the one of index `⌊t ÷ s⌋`. A unit of
//! sub-window `i` is free at `(i + 1)·s + window`: never before it is a window old, so no span of
//! the window's length sees more than the limit, and less than `s` later. While `t` lies in
//! sub-window `n`, the oldest one that is not free has `(i + 1)·s > t − window ≥ n·s − 16·s`, that is
//! `i ≥ n − 16`: 17 counters do.

use super::{Summary, length_us};
use crate::law::Usage;
use crate::units::{MAX_AMOUNT, MAX_INSTANT_US, MIN_WINDOW_MS};
use crate::wire::{Invalid, Sink, Source};

const COUNTERS: usize = 17;
/// No index is larger: the last sub-window of the shortest window.
const MAX_INDEX: u64 = MAX_INSTANT_US / (MIN_WINDOW_MS * 1000).div_ceil(16);

/// The sub-windows of one window length.
#[derive(Clone, Copy, Debug)]
struct Grid {
    step_us: u64,
    length_us: u64,
}

impl Grid {
    fn new(length_ms: u64) -> Self {
        let length_us = length_us(length_ms);
        Self { step_us: length_us.div_ceil(16).max(1), length_us }
    }

    const fn index(&self, at_us: u64) -> u64 {
        at_us / self.step_us
    }

    /// Index of the last sub-window that has a beginning.
    const fn last(&self) -> u64 {
        self.index(MAX_INSTANT_US)
    }

    /// When the units of sub-window `index` are free.
    const fn free_us(&self, index: u64) -> u64 {
        (index + 1).saturating_mul(self.step_us).saturating_add(self.length_us)
    }

    /// How many counters, from that of sub-window `newest` back, are not free at `now_us`.
    fn live(&self, newest: u64, now_us: u64) -> usize {
        // counts[k] is free k steps before the newest.
        let left_us = self.free_us(newest).saturating_sub(now_us);
        left_us.div_ceil(self.step_us).min(COUNTERS as u64) as usize
    }
}

/// What is used, by sub-window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sliding {
    /// Index of the newest sub-window that counts anything.
    newest: u64,
    /// Units by age: `counts[k]` were charged in sub-window `newest − k` (which may lie before the
    /// epoch after a clock step). The first is never 0 when stored.
    counts: [u64; COUNTERS],
}

impl Sliding {
    const fn new(index: u64, count: u64) -> Self {
        let mut counts = [0; COUNTERS];
        counts[0] = count;
        Self { newest: index, counts }
    }

    /// From this instant on nothing is used any more.
    #[must_use]
    pub fn end_us(&self, length_ms: u64) -> u64 {
        Grid::new(length_ms).free_us(self.newest)
    }

    /// Bytes on the heap: none.
    #[must_use]
    pub const fn heap_bytes(&self) -> usize {
        0
    }

    fn used(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Without what is free at `now_us`; `None` when all is.
    fn live(mut self, grid: Grid, now_us: u64) -> Option<Self> {
        let live = grid.live(self.newest, now_us);
        self.counts[live..].fill(0);
        (live > 0).then_some(self)
    }

    /// The same with `count` units in sub-window `index`, which must not be older than the newest.
    fn with_newest(&self, index: u64, count: u64) -> Option<Self> {
        let age = usize::try_from(index.checked_sub(self.newest)?).unwrap_or(COUNTERS);
        let mut next = Self::new(index, count);
        match age {
            0 => next.counts[1..].copy_from_slice(&self.counts[1..]),
            1..COUNTERS => next.counts[age..].copy_from_slice(&self.counts[..COUNTERS - age]),
            _ => {}
        }
        Some(next)
    }

    /// Makes `count` the newest counter and drops what is free at `now_us`, in place: what nearly
    /// every charge does. Nothing happens, and `false`, when all is free or too much would be used.
    fn recount(&mut self, count: u64, grid: Grid, now_us: u64) -> bool {
        let live = grid.live(self.newest, now_us);
        let rest: u64 = self.counts[1..live.max(1)].iter().sum();
        let fits = live > 0 && count <= MAX_AMOUNT && rest + count <= MAX_AMOUNT;
        if fits {
            self.counts[0] = count;
            self.counts[live..].fill(0);
        }
        fits
    }

    /// Without the oldest `units`; `None` when nothing is left.
    fn without_oldest(mut self, mut units: u64) -> Option<Self> {
        for count in self.counts.iter_mut().rev() {
            let freed = units.min(*count);
            *count -= freed;
            units -= freed;
        }
        (self.counts[0] > 0).then_some(self)
    }

    /// Appends the encoding: newest index, number of counters up to the last that is not 0, counters.
    pub fn encode(&self, out: &mut impl Sink) {
        out.put_int(self.newest);
        let len = self.counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        out.put_int(len as u64);
        self.counts[..len].iter().for_each(|&count| out.put_int(count));
    }

    /// Reads what [`Sliding::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that [`apply`] could not have stored.
    pub fn decode(source: &mut Source, length_ms: u64) -> Result<Self, Invalid> {
        let window = Self::decode_any(source)?;
        if window.newest > Grid::new(length_ms).last() { Err(Invalid) } else { Ok(window) }
    }

    /// The same of any length.
    fn decode_any(source: &mut Source) -> Result<Self, Invalid> {
        let mut window = Self::new(source.int(MAX_INDEX)?, 0);
        let len = source.int(COUNTERS as u64)? as usize;
        for count in &mut window.counts[..len] {
            *count = source.int(MAX_AMOUNT)?;
        }
        let trimmed = len > 0 && window.counts[len - 1] > 0;
        let valid = trimmed && window.counts[0] > 0 && window.used() <= MAX_AMOUNT;
        if valid { Ok(window) } else { Err(Invalid) }
    }
}

/// What a call changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta(Change);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// Nothing is used any more.
    Gone,
    /// The newest sub-window is `index`, and counts `count`.
    Charge { index: u64, count: u64 },
    /// All counters: after a refund or a move. Rare, so boxed.
    Whole(Box<Sliding>),
}

impl Delta {
    const GONE: u8 = 0;
    const CHARGE: u8 = 1;
    const WHOLE: u8 = 2;

    /// Appends the encoding: what it is, then its numbers.
    pub fn encode(&self, out: &mut impl Sink) {
        match &self.0 {
            Change::Gone => out.put_u8(Self::GONE),
            Change::Charge { index, count } => {
                out.put_u8(Self::CHARGE);
                out.put_int(*index);
                out.put_int(*count);
            }
            Change::Whole(window) => {
                out.put_u8(Self::WHOLE);
                window.encode(out);
            }
        }
    }

    /// Reads what [`Delta::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have sent.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        Ok(Self(match source.u8()? {
            Self::GONE => Change::Gone,
            Self::CHARGE => {
                let (index, count) = (source.int(MAX_INDEX)?, source.int(MAX_AMOUNT)?);
                if count == 0 {
                    return Err(Invalid);
                }
                Change::Charge { index, count }
            }
            Self::WHOLE => Change::Whole(Box::new(Sliding::decode_any(source)?)),
            _ => return Err(Invalid),
        }))
    }
}

/// Makes `delta` so, and drops what is free at `now_us`, the instant that came with it.
///
/// # Errors
/// [`Invalid`], with `state` unchanged, when more than [`MAX_AMOUNT`] would be used, or the delta
/// charges an older sub-window than the newest.
pub fn apply(
    state: &mut Option<Box<Sliding>>,
    length_ms: u64,
    delta: &Delta,
    now_us: u64,
) -> Result<(), Invalid> {
    let (grid, now_us) = (Grid::new(length_ms), now_us.min(MAX_INSTANT_US));
    let next = match (&delta.0, &mut *state) {
        (Change::Gone, _) => None,
        (Change::Whole(window), _) => Some(**window),
        (Change::Charge { index, count }, None) => Some(Sliding::new(*index, *count)),
        (Change::Charge { index, count }, Some(window)) => {
            if *index == window.newest && window.recount(*count, grid, now_us) {
                return Ok(());
            }
            Some(window.with_newest(*index, *count).ok_or(Invalid)?)
        }
    };
    if next.is_some_and(|next| next.newest > grid.last()) {
        return Err(Invalid);
    }
    let next = next.and_then(|next| next.live(grid, now_us));
    // Each counter is bounded first: only then their sum cannot overflow.
    let fits = |next: &Sliding| {
        next.counts.iter().all(|&count| count <= MAX_AMOUNT) && next.used() <= MAX_AMOUNT
    };
    if next.as_ref().is_some_and(|next| !fits(next)) {
        return Err(Invalid);
    }
    match (&mut *state, next) {
        // The box stays: a hot key must not pay for an allocation on each call.
        (Some(window), Some(next)) => **window = next,
        (_, next) => *state = next.map(Box::new),
    }
    Ok(())
}

/// A window seen at one instant.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The counters that are not free yet, youngest first; none when nothing is used.
    counts: &'a [u64],
    /// Index of the first, moved back if it lay in the future.
    newest: u64,
    used: u64,
    moved: bool,
    grid: Grid,
    now_us: u64,
}

impl<'a> View<'a> {
    /// Sees `state` at `now_us`.
    #[must_use]
    pub fn new(state: Option<&'a Sliding>, length_ms: u64, now_us: u64) -> Self {
        let (grid, now_us) = (Grid::new(length_ms), now_us.min(MAX_INSTANT_US));
        let index = grid.index(now_us);
        let (newest, moved, counts) = match state {
            Some(window) => {
                let newest = window.newest.min(index);
                let live = grid.live(newest, now_us);
                (newest, window.newest > index, &window.counts[..live])
            }
            None => (0, false, &[][..]),
        };
        let used = counts.iter().sum();
        Self { counts, newest, used, moved, grid, now_us }
    }

    /// Everything that is not free yet.
    fn live(&self) -> Option<Sliding> {
        let mut live = Sliding::new(self.newest, *self.counts.first()?);
        live.counts[..self.counts.len()].copy_from_slice(self.counts);
        Some(live)
    }

    fn whole(live: Option<Sliding>) -> Delta {
        Delta(live.map_or(Change::Gone, |live| Change::Whole(Box::new(live))))
    }

    /// Charges `units` (at least 1) that the law admitted.
    #[must_use]
    pub fn charge(&self, units: u64) -> Delta {
        let index = self.grid.index(self.now_us);
        let count = match self.counts {
            [newest, ..] if self.newest == index => newest.saturating_add(units),
            _ => units,
        };
        let moved = if self.moved { self.live() } else { None };
        match moved.and_then(|live| live.with_newest(index, count)) {
            Some(charged) => Self::whole(Some(charged)),
            None => Delta(Change::Charge { index, count }),
        }
    }

    /// The move that the clock rule demands, if it does.
    #[must_use]
    pub fn settle(&self) -> Option<Delta> {
        self.moved.then(|| Self::whole(self.live()))
    }

    /// Gives back `units`, oldest first, that were charged `age_us` ago: nothing when that is the
    /// window's length or more. `None` when nothing changes.
    #[must_use]
    pub fn refund(&self, units: u64, age_us: u64) -> Option<Delta> {
        match self.live() {
            Some(live) if units > 0 && age_us < self.grid.length_us => {
                Some(Self::whole(live.without_oldest(units)))
            }
            _ => self.settle(),
        }
    }

    /// What a person is shown; `None` when nothing is used.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        let oldest = self.counts.iter().rposition(|&count| count > 0)? as u64;
        let since_us = self.newest.saturating_sub(oldest).saturating_mul(self.grid.step_us);
        let until_ms = self.grid.free_us(self.newest).div_ceil(1000);
        Some(Summary { used: self.used, since_ms: since_us / 1000, until_ms })
    }
}

impl Usage for View<'_> {
    fn used(&self) -> u64 {
        self.used
    }

    fn wait_us(&self, target: u64) -> u64 {
        let mut left = self.used;
        let mut free_us = self.now_us;
        // From the oldest counter on, until little enough is left.
        for (age, &count) in self.counts.iter().enumerate().rev() {
            if left <= target {
                break;
            }
            if count > 0 {
                left = left.saturating_sub(count);
                let younger_us = (age as u64).saturating_mul(self.grid.step_us);
                free_us = self.grid.free_us(self.newest).saturating_sub(younger_us);
            }
        }
        free_us.saturating_sub(self.now_us)
    }

    fn reset_us(&self) -> u64 {
        let youngest = self.counts.iter().position(|&count| count > 0);
        youngest.map_or(0, |age| {
            let younger_us = (age as u64).saturating_mul(self.grid.step_us);
            let free_us = self.grid.free_us(self.newest).saturating_sub(younger_us);
            free_us.saturating_sub(self.now_us)
        })
    }
}
