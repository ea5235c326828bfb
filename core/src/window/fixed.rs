//! Fixed window: one counter.
//!
//! ```text
//!        first unit                      end = start + length
//!  ─────────┼───────────────────────────────┼────────┼─────────────▶ t
//!           start   +2        +5             nothing  the next unit
//!           used 1   3         8             used     opens a new one
//! ```
//!
//! All units of a window are free at its end. Up to twice the limit can pass across an edge.

use super::{Summary, length_us};
use crate::law::Usage;
use crate::units::{MAX_AMOUNT, MAX_INSTANT_US};
use crate::wire::{Invalid, Sink, Source};

/// An open window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// When it opened.
    start_us: u64,
    /// Units charged since. Never 0 when stored.
    used: u64,
}

impl Fixed {
    /// From this instant on nothing is used any more.
    #[must_use]
    pub const fn end_us(&self, length_ms: u64) -> u64 {
        self.start_us.saturating_add(length_us(length_ms))
    }

    /// Bytes on the heap: none.
    #[must_use]
    pub const fn heap_bytes(&self) -> usize {
        0
    }

    const fn has_ended(&self, length_ms: u64, now_us: u64) -> bool {
        self.end_us(length_ms) <= now_us
    }

    const fn is_valid(&self) -> bool {
        self.used > 0 && self.used <= MAX_AMOUNT && self.start_us <= MAX_INSTANT_US
    }

    /// Appends the encoding: used units, start.
    pub fn encode(&self, out: &mut impl Sink) {
        out.put_int(self.used);
        out.put_int(self.start_us);
    }

    /// Reads what [`Fixed::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have stored.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        let used = source.int(MAX_AMOUNT)?;
        let window = Self { used, start_us: source.int(MAX_INSTANT_US)? };
        if window.is_valid() { Ok(window) } else { Err(Invalid) }
    }
}

/// What a call changes: the window as it is afterwards, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta(Option<Fixed>);

impl Delta {
    /// Appends the encoding: that of the window, or a 0.
    pub fn encode(&self, out: &mut impl Sink) {
        match &self.0 {
            Some(window) => window.encode(out),
            None => out.put_int(0),
        }
    }

    /// Reads what [`Delta::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have sent.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        let mut ahead = source.clone();
        if ahead.int(MAX_AMOUNT)? == 0 {
            *source = ahead;
            return Ok(Self(None));
        }
        Ok(Self(Some(Fixed::decode(source)?)))
    }
}

/// Makes `delta` so. A window that ended by `now_us`, the instant that came with it, is dropped.
///
/// # Errors
/// [`Invalid`], with `state` unchanged, when more than [`MAX_AMOUNT`] would be used.
pub fn apply(
    state: &mut Option<Fixed>,
    length_ms: u64,
    delta: &Delta,
    now_us: u64,
) -> Result<(), Invalid> {
    if delta.0.is_some_and(|window| !window.is_valid()) {
        return Err(Invalid);
    }
    let now_us = now_us.min(MAX_INSTANT_US);
    *state = delta.0.filter(|window| !window.has_ended(length_ms, now_us));
    Ok(())
}

/// A window seen at one instant.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The open window, moved back if it lay in the future.
    open: Option<Fixed>,
    moved: bool,
    length_ms: u64,
    now_us: u64,
}

impl View {
    /// Sees `state` at `now_us`.
    #[must_use]
    pub fn new(state: Option<&Fixed>, length_ms: u64, now_us: u64) -> Self {
        let now_us = now_us.min(MAX_INSTANT_US);
        let moved = state.is_some_and(|window| window.start_us > now_us);
        let open = state
            .map(|window| Fixed { start_us: window.start_us.min(now_us), ..*window })
            .filter(|window| !window.has_ended(length_ms, now_us));
        Self { open, moved, length_ms, now_us }
    }

    /// Charges `units` (at least 1) that the law admitted; opens a window if none is open.
    #[must_use]
    pub fn charge(&self, units: u64) -> Delta {
        let Fixed { start_us, used } =
            self.open.unwrap_or(Fixed { start_us: self.now_us, used: 0 });
        Delta(Some(Fixed { start_us, used: used.saturating_add(units) }))
    }

    /// The view once `delta`, a charge, is made.
    #[must_use]
    pub const fn after(&self, delta: &Delta) -> Self {
        Self { open: delta.0, moved: false, ..*self }
    }

    /// The move that the clock rule demands, if it does.
    #[must_use]
    pub fn settle(&self) -> Option<Delta> {
        self.moved.then_some(Delta(self.open))
    }

    /// Gives back `units` that were charged `age_us` ago: nothing when the window opened since.
    /// `None` when nothing changes.
    #[must_use]
    pub fn refund(&self, units: u64, age_us: u64) -> Option<Delta> {
        let charged_at_us = self.now_us.checked_sub(age_us);
        match self.open {
            Some(open) if units > 0 && charged_at_us.is_some_and(|at| open.start_us <= at) => {
                let used = open.used.saturating_sub(units);
                Some(Delta((used > 0).then_some(Fixed { used, ..open })))
            }
            _ => self.settle(),
        }
    }

    /// What a person is shown; `None` when nothing is used.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        self.open.map(|open| Summary {
            used: open.used,
            since_ms: open.start_us / 1000,
            until_ms: open.end_us(self.length_ms).div_ceil(1000),
        })
    }
}

impl Usage for View {
    fn used(&self) -> u64 {
        self.open.map_or(0, |open| open.used)
    }

    fn wait_us(&self, target: u64) -> u64 {
        match self.open {
            Some(open) if open.used > target => open.end_us(self.length_ms) - self.now_us,
            _ => 0,
        }
    }

    fn reset_us(&self) -> u64 {
        self.wait_us(0)
    }
}
