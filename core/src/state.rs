//! One limit of any kind: its state, how a call sees it, and how it changes.
//!
//! This file only picks the kind; what a kind does stands in its own file.

use crate::bucket::{self, Bucket, PackedBucket};
use crate::calendar::Periods;
use crate::law::{self, Outcome, Overflow, Usage};
use crate::lease::{self, Claim, ClaimError, LeaseSet};
use crate::limit::{Layer, Params, Which};
use crate::quota::{self, Quota};
use crate::subject::{Found, Subject};
use crate::verdict::Verdict;
use crate::window::{Fixed, Log, Sliding, WindowMode, fixed, log, sliding};
use crate::wire::{Invalid, Sink, Source};

/// What is stored of one limit. Something is used: else the limit is not stored at all.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// A token bucket.
    Bucket(PackedBucket),
    /// A fixed window.
    Fixed(Fixed),
    /// A sliding window; boxed, being much larger than the others.
    Sliding(Box<Sliding>),
    /// The log of a window.
    Log(Log),
    /// A calendar period.
    Quota(Quota),
    /// Leases; boxed likewise.
    Lease(Box<LeaseSet>),
}

/// How one limit changes: small absolute facts.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// The bucket is this one now.
    Bucket(Bucket),
    /// Nothing is used of the bucket any more, or the limit is to be forgotten.
    Forget,
    /// The fixed window changes.
    Fixed(fixed::Delta),
    /// The sliding window changes.
    Sliding(sliding::Delta),
    /// The log changes.
    Log(log::Delta),
    /// The quota changes.
    Quota(quota::Delta),
    /// The leases change.
    Lease(lease::Delta),
}

/// Why a call cannot be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The charge would lift what is used above 2^53 − 1.
    Overflow,
    /// The lease id is held with another number of slots.
    OtherSlots,
    /// A forced lease beyond the most that a limit can hold.
    TooManyLeases,
}

impl From<Overflow> for Fault {
    fn from(_: Overflow) -> Self {
        Self::Overflow
    }
}

impl From<ClaimError> for Fault {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Overflow => Self::Overflow,
            ClaimError::OtherCount => Self::OtherSlots,
            ClaimError::Full => Self::TooManyLeases,
        }
    }
}

/// The length of a window; of what is none no caller asks.
fn length_ms(which: Which) -> u64 {
    which.length_ms().unwrap_or(0)
}

impl State {
    /// From this instant on (Unix µs) nothing is used any more.
    #[must_use]
    pub fn end_us(&self, which: Which) -> u64 {
        match self {
            Self::Bucket(bucket) => Bucket::from(*bucket).end_us(),
            Self::Fixed(window) => window.end_us(length_ms(which)),
            Self::Sliding(window) => window.end_us(length_ms(which)),
            Self::Log(log) => log.end_us(length_ms(which)),
            Self::Quota(quota) => quota.end_ms().saturating_mul(1000),
            Self::Lease(leases) => leases.end_us(),
        }
    }

    /// Applies a change that was decided at `now_us`; the slot is None when nothing is used.
    ///
    /// # Errors
    /// [`Invalid`], with the state unchanged, when the change does not fit the state.
    pub fn apply(
        slot: &mut Option<Self>,
        which: Which,
        delta: &Delta,
        now_us: u64,
    ) -> Result<(), Invalid> {
        let length_ms = length_ms(which);
        match delta {
            Delta::Forget => *slot = None,
            Delta::Bucket(bucket) => *slot = Some(Self::Bucket(PackedBucket::from(*bucket))),
            Delta::Fixed(delta) => {
                let mut inner = match slot {
                    Some(Self::Fixed(window)) => Some(*window),
                    _ => None,
                };
                fixed::apply(&mut inner, length_ms, delta, now_us)?;
                *slot = inner.map(Self::Fixed);
            }
            Delta::Sliding(delta) => {
                let mut inner = match slot.take() {
                    Some(Self::Sliding(window)) => Some(window),
                    _ => None,
                };
                let applied = sliding::apply(&mut inner, length_ms, delta, now_us);
                *slot = inner.map(Self::Sliding);
                applied?;
            }
            Delta::Log(delta) => {
                let mut inner = match slot.take() {
                    Some(Self::Log(log)) => Some(log),
                    _ => None,
                };
                let applied = log::apply(&mut inner, length_ms, delta, now_us);
                *slot = inner.map(Self::Log);
                applied?;
            }
            Delta::Quota(delta) => {
                let mut inner = match slot {
                    Some(Self::Quota(quota)) => Some(*quota),
                    _ => None,
                };
                quota::apply(&mut inner, delta, now_us)?;
                *slot = inner.map(Self::Quota);
            }
            Delta::Lease(delta) => apply_lease(slot, delta, now_us)?,
        }
        Ok(())
    }

    /// Appends the encoding; the kind is told by the identity before it.
    pub(crate) fn encode(&self, out: &mut impl Sink) {
        match self {
            Self::Bucket(bucket) => Bucket::from(*bucket).encode(out),
            Self::Fixed(window) => window.encode(out),
            Self::Sliding(window) => window.encode(out),
            Self::Log(log) => log.encode(out),
            Self::Quota(quota) => quota.encode(out),
            Self::Lease(leases) => leases.encode(out),
        }
    }

    /// Reads the state of a limit of this kind.
    pub(crate) fn decode(which: Which, source: &mut Source) -> Result<Self, Invalid> {
        Ok(match which {
            Which::Bucket => Self::Bucket(Bucket::decode(source)?.into()),
            Which::Window { mode: WindowMode::Fixed, .. } => Self::Fixed(Fixed::decode(source)?),
            Which::Window { mode: WindowMode::Sliding, length_ms } => {
                Self::Sliding(Box::new(Sliding::decode(source, length_ms)?))
            }
            Which::Window { mode: WindowMode::Log, .. } => Self::Log(Log::decode(source)?),
            Which::Quota(_) => Self::Quota(Quota::decode(source)?),
            Which::Lease => Self::Lease(Box::new(LeaseSet::decode(source)?)),
        })
    }

    /// Bytes on the heap beyond the state itself.
    #[must_use]
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Bucket(_) | Self::Fixed(_) | Self::Quota(_) => 0,
            Self::Sliding(_) => size_of::<Sliding>(),
            Self::Log(log) => log.heap_bytes(),
            Self::Lease(leases) => size_of::<LeaseSet>() + leases.heap_bytes(),
        }
    }

    /// Roughly how many allocations freeing it takes.
    #[must_use]
    pub(crate) fn free_effort(&self) -> usize {
        match self {
            Self::Lease(leases) => leases.len(),
            _ => 1,
        }
    }
}

fn apply_lease(slot: &mut Option<State>, delta: &lease::Delta, now_us: u64) -> Result<(), Invalid> {
    let mut inner = match slot {
        Some(State::Lease(leases)) => Some(core::mem::take(&mut **leases)),
        _ => None,
    };
    let applied = lease::apply(&mut inner, delta, now_us);
    match (&mut *slot, inner) {
        (Some(State::Lease(leases)), Some(next)) => **leases = next,
        (_, next) => *slot = next.map(|next| State::Lease(Box::new(next))),
    }
    applied
}

impl Delta {
    /// Appends the encoding; the kind is told by the identity before it.
    pub(crate) fn encode(&self, out: &mut impl Sink) {
        match self {
            Self::Bucket(bucket) => bucket.encode(out),
            Self::Forget => {}
            Self::Fixed(delta) => delta.encode(out),
            Self::Sliding(delta) => delta.encode(out),
            Self::Log(delta) => delta.encode(out),
            Self::Quota(delta) => delta.encode(out),
            Self::Lease(delta) => delta.encode(out),
        }
    }

    /// Reads the change of a limit of this kind.
    pub(crate) fn decode(which: Which, source: &mut Source) -> Result<Self, Invalid> {
        Ok(match which {
            Which::Bucket => Self::Bucket(Bucket::decode(source)?),
            Which::Window { mode: WindowMode::Fixed, .. } => {
                Self::Fixed(fixed::Delta::decode(source)?)
            }
            Which::Window { mode: WindowMode::Sliding, .. } => {
                Self::Sliding(sliding::Delta::decode(source)?)
            }
            Which::Window { mode: WindowMode::Log, .. } => Self::Log(log::Delta::decode(source)?),
            Which::Quota(_) => Self::Quota(quota::Delta::decode(source)?),
            Which::Lease => Self::Lease(lease::Delta::decode(source)?),
        })
    }
}

/// One limit as a call sees it at one instant.
#[derive(Clone, Copy, Debug)]
pub enum View<'s> {
    /// A token bucket.
    Bucket(bucket::View),
    /// A fixed window.
    Fixed(fixed::View),
    /// A sliding window.
    Sliding(sliding::View<'s>),
    /// The log of a window.
    Log(log::View<'s>),
    /// A calendar quota.
    Quota(quota::View),
    /// Leases.
    Lease(lease::View<'s>),
}

impl<'s> View<'s> {
    /// Sees the limit of `layer`, which is probably number `guess` of `subject`, at `now_us`.
    #[must_use]
    pub fn new(
        subject: Option<&'s Subject>,
        guess: usize,
        layer: &Layer,
        now_us: u64,
        calendar: &mut impl Periods,
    ) -> Self {
        let found = subject.and_then(|subject| subject.find(&layer.identity(), guess));
        let state = match found {
            Some(Found::State(state)) => Some(state),
            _ => None,
        };
        match (&layer.params, state) {
            (Params::Bucket { rate, .. }, _) => {
                let bucket = match found {
                    Some(Found::Bucket(bucket)) => Some(bucket),
                    Some(Found::State(State::Bucket(bucket))) => Some(Bucket::from(*bucket)),
                    _ => None,
                };
                Self::Bucket(bucket::View::new(bucket, *rate, now_us))
            }
            (Params::Window { mode, length_ms, .. }, state) => {
                Self::window(*mode, *length_ms, state, now_us)
            }
            (Params::Quota { period, zone, anchor, .. }, state) => {
                let quota = match state {
                    Some(State::Quota(quota)) => Some(quota),
                    _ => None,
                };
                let bounds = || calendar.bounds(zone, *period, *anchor, now_us);
                Self::Quota(quota::View::new(quota, bounds, now_us))
            }
            (Params::Lease { .. }, state) => Self::leases(state, now_us),
        }
    }

    fn window(mode: WindowMode, length_ms: u64, state: Option<&'s State>, now_us: u64) -> Self {
        match (mode, state) {
            (WindowMode::Fixed, Some(State::Fixed(window))) => {
                Self::Fixed(fixed::View::new(Some(window), length_ms, now_us))
            }
            (WindowMode::Fixed, _) => Self::Fixed(fixed::View::new(None, length_ms, now_us)),
            (WindowMode::Sliding, Some(State::Sliding(window))) => {
                Self::Sliding(sliding::View::new(Some(window), length_ms, now_us))
            }
            (WindowMode::Sliding, _) => Self::Sliding(sliding::View::new(None, length_ms, now_us)),
            (WindowMode::Log, Some(State::Log(log))) => {
                Self::Log(log::View::new(Some(log), length_ms, now_us))
            }
            (WindowMode::Log, _) => Self::Log(log::View::new(None, length_ms, now_us)),
        }
    }

    /// Sees the leases of `state` at `now_us`.
    #[must_use]
    pub fn leases(state: Option<&'s State>, now_us: u64) -> Self {
        let leases = match state {
            Some(State::Lease(leases)) => Some(&**leases),
            _ => None,
        };
        Self::Lease(lease::View::new(leases, now_us))
    }

    /// What the law says to `layer`. Changes nothing.
    ///
    /// Inlined, like [`View::verdict`] and [`Rate::parse`](crate::units::Rate::parse): an answer that
    /// comes through memory is read in other pieces than it was written, for which the processor waits.
    ///
    /// # Errors
    /// A [`Fault`] when the call can be neither admitted nor refused.
    #[inline(always)]
    pub fn decide(&self, layer: &Layer) -> Result<Outcome, Fault> {
        let (limit, ask) = (layer.capacity(), &layer.ask);
        if let Self::Lease(view) = self {
            let force = ask.charging == law::Charging::Force;
            return Ok(view.decide(limit, &claim(layer), ask.leave, force)?);
        }
        Ok(law::decide(self, limit, ask)?)
    }

    /// Of a layer that is admitted because its lease id is held: when that lease is over
    /// (milliseconds from now), and the refusal that follows.
    pub(crate) fn lapse(&self, layer: &Layer) -> Option<(u64, Outcome)> {
        match self {
            Self::Lease(view) if layer.ask.cost > 0 => {
                view.lapse(layer.capacity(), &claim(layer), layer.ask.leave)
            }
            _ => None,
        }
    }

    /// The change of a call that the law admitted; None when nothing is charged.
    #[must_use]
    #[inline]
    pub fn charge(&self, layer: &Layer, outcome: Outcome) -> Option<Delta> {
        let Outcome::Admit { units, .. } = outcome else { return None };
        if let Self::Lease(view) = self {
            return view.charge(&claim(layer)).map(Delta::Lease);
        }
        if units == 0 {
            return None;
        }
        Some(match self {
            Self::Bucket(view) => Delta::Bucket(view.charge(units)),
            Self::Fixed(view) => Delta::Fixed(view.charge(units)),
            Self::Sliding(view) => Delta::Sliding(view.charge(units)),
            Self::Log(view) => Delta::Log(view.charge(units)),
            Self::Quota(view) => Delta::Quota(view.charge(units)),
            Self::Lease(_) => return None,
        })
    }

    /// The limit as it is seen once `delta`, which [`View::charge`] answered, is made so at this same
    /// instant; `None` of the kinds that must be looked at again for that.
    #[must_use]
    pub fn after(&self, delta: &Delta) -> Option<View<'static>> {
        match (self, delta) {
            (Self::Bucket(view), Delta::Bucket(bucket)) => Some(View::Bucket(view.after(*bucket))),
            (Self::Fixed(view), Delta::Fixed(delta)) => Some(View::Fixed(view.after(delta))),
            (Self::Quota(view), Delta::Quota(delta)) => Some(View::Quota(view.after(delta))),
            _ => None,
        }
    }

    /// The change that the clock rule makes even under a refusal.
    #[must_use]
    pub fn settle(&self) -> Option<Delta> {
        match self {
            Self::Bucket(view) => view.settle().map(Delta::Bucket),
            Self::Fixed(view) => view.settle().map(Delta::Fixed),
            Self::Sliding(view) => view.settle().map(Delta::Sliding),
            Self::Log(view) => view.settle().map(Delta::Log),
            Self::Quota(_) => None,
            Self::Lease(view) => view.settle().map(Delta::Lease),
        }
    }

    /// The change that gives back the cost of `layer`, charged `age_us` ago.
    #[must_use]
    pub fn refund(&self, layer: &Layer, age_us: u64) -> Option<Delta> {
        let units = layer.ask.cost;
        if units == 0 {
            return None;
        }
        match self {
            Self::Bucket(view) => view.refund(units),
            Self::Fixed(view) => view.refund(units, age_us).map(Delta::Fixed),
            Self::Sliding(view) => view.refund(units, age_us).map(Delta::Sliding),
            Self::Log(view) => view.refund(units, age_us).map(Delta::Log),
            Self::Quota(view) => view.refund(units, age_us).map(Delta::Quota),
            Self::Lease(_) => None,
        }
    }

    /// Whether a charge may lengthen a log or a set of leases.
    #[must_use]
    pub const fn can_grow(&self) -> bool {
        matches!(self, Self::Log(_) | Self::Lease(_))
    }

    /// Whether `delta` lengthens a log or a set of leases.
    #[must_use]
    pub fn grows(&self, delta: &Delta) -> bool {
        match (self, delta) {
            (Self::Log(view), Delta::Log(delta)) => view.grows(delta),
            (Self::Lease(_), Delta::Lease(delta)) => delta.grows(),
            _ => false,
        }
    }

    /// The five integers for `outcome`, with the state as it is seen here.
    #[must_use]
    #[inline(always)]
    pub fn verdict(&self, layer: &Layer, outcome: Outcome) -> Verdict {
        law::verdict(self, layer.capacity(), layer.ask.charging, outcome)
    }

    /// How many further calls like this the limit admits after this one; the most for cost 0.
    #[must_use]
    pub fn further_calls(&self, layer: &Layer, outcome: Outcome) -> u64 {
        let charged = match outcome {
            Outcome::Admit { units, .. } => units,
            Outcome::Refuse { .. } => 0,
        };
        let taken = self.used().saturating_add(charged).saturating_add(layer.ask.leave);
        let rest = layer.capacity().saturating_sub(taken);
        rest.checked_div(layer.ask.cost).unwrap_or(u64::MAX)
    }
}

fn claim<'a>(layer: &Layer<'a>) -> Claim<'a> {
    let (ttl_ms, id, nx) = match layer.params {
        Params::Lease { ttl_ms, id, nx, .. } => (ttl_ms, id, nx),
        _ => (1, None, false),
    };
    Claim { id, slots: layer.ask.cost, ttl_ms, nx }
}

impl Usage for View<'_> {
    #[inline(always)]
    fn used(&self) -> u64 {
        match self {
            Self::Bucket(view) => view.used(),
            Self::Fixed(view) => view.used(),
            Self::Sliding(view) => view.used(),
            Self::Log(view) => view.used(),
            Self::Quota(view) => view.used(),
            Self::Lease(view) => view.used(),
        }
    }

    #[inline(always)]
    fn wait_us(&self, target: u64) -> u64 {
        match self {
            Self::Bucket(view) => view.wait_us(target),
            Self::Fixed(view) => view.wait_us(target),
            Self::Sliding(view) => view.wait_us(target),
            Self::Log(view) => view.wait_us(target),
            Self::Quota(view) => view.wait_us(target),
            Self::Lease(view) => view.wait_us(target),
        }
    }

    #[inline(always)]
    fn reset_us(&self) -> u64 {
        match self {
            Self::Bucket(view) => view.reset_us(),
            Self::Fixed(view) => view.reset_us(),
            Self::Sliding(view) => view.reset_us(),
            Self::Log(view) => view.reset_us(),
            Self::Quota(view) => view.reset_us(),
            Self::Lease(view) => view.reset_us(),
        }
    }
}
