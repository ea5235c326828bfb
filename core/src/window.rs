//! Windows: at most `limit` units per length of time.
//!
//! Three ways to count, each a module with the same shape:
//!
//! | mode | memory | what it promises |
//! | --- | --- | --- |
//! | [`sliding`] | 17 counters | never more than `limit` in any span of the window's length; frees a unit at most a sixteenth of the window late |
//! | [`fixed`] | 1 counter | opens with the first charged unit, ends one length later; twice `limit` is possible across an edge |
//! | [`log`] | one entry a millisecond | never more than `limit` in any span; exact to the millisecond |
//!
//! A span is half open: `[t, t + length)`. What is stored is what was *used*, so the limit can change
//! from call to call.
//!
//! A call looks at the stored state through a `View` at one instant. Whatever it changes is a
//! `Delta`: a few absolute facts, which `apply` writes into the state, here as on replicas and when
//! an append-only file is replayed. `apply` drops what had ended by the instant that came with the
//! delta, so all of them agree.
//!
//! **Clock rule.** When the newest stored instant lies in the future (the clock stepped back), a view
//! answers as if all instants were moved back by the difference, and its deltas make it so;
//! `View::settle` is the delta of a call that changes nothing else.

pub mod fixed;
pub mod log;
pub mod sliding;

pub use fixed::Fixed;
pub use log::{Log, MAX_ENTRIES};
pub use sliding::Sliding;

/// How a window counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WindowMode {
    /// 17 counters on a grid: constant memory, no double burst. See [`sliding`].
    #[default]
    Sliding,
    /// One counter that opens with the first charged unit. See [`fixed`].
    Fixed,
    /// A log of admissions. See [`log`].
    Log,
}

impl WindowMode {
    /// The lower-case word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sliding => "sliding",
            Self::Fixed => "fixed",
            Self::Log => "log",
        }
    }
}

/// What a person is shown of a window that has something in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Units in use now.
    pub used: u64,
    /// When the oldest of them was charged, or the window opened (Unix ms, rounded down; of a
    /// sliding window the start of the sub-window).
    pub since_ms: u64,
    /// When nothing will be used any more (Unix ms, rounded up).
    pub until_ms: u64,
}

/// The length in microseconds.
const fn length_us(length_ms: u64) -> u64 {
    length_ms.saturating_mul(1000)
}
