//! All limits of one key.

use crate::bucket::{Bucket, CompactBucket, PackedBucket};
use crate::lease::LeaseSet;
use crate::limit::{Identity, MAX_LIMITS, Which};
use crate::state::{Delta, State};
use crate::wire::{Invalid, Sink, Source};
use thin_vec::{ThinVec, thin_vec};

/// All limits of one key; at least one. The common case of one unnamed bucket takes 16 bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// One unnamed bucket.
    One(CompactBucket),
    /// Anything else, also a bucket that has no small form.
    Many(ThinVec<Limit>),
}

/// A limit with its identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    which: Which,
    name: Option<Box<[u8]>>,
    /// None only while an effect is being applied.
    state: Option<State>,
}

/// The state of a limit found in a subject.
#[derive(Clone, Copy, Debug)]
pub enum Found<'s> {
    /// A bucket, unpacked.
    Bucket(Bucket),
    /// Another state.
    State(&'s State),
}

/// One limit's change, as an effect carries it.
pub type Change<'a> = (Identity<'a>, Delta);

impl Limit {
    fn is(&self, identity: &Identity) -> bool {
        self.which == identity.which && self.name.as_deref() == identity.name
    }

    fn identity(&self) -> Identity<'_> {
        Identity { which: self.which, name: self.name.as_deref() }
    }

    fn end_us(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.end_us(self.which))
    }
}

impl Subject {
    /// The state of one limit, ended or not. It is looked for first at number `guess`, since calls
    /// mostly name the limits of a key in the order in which they were stored.
    #[must_use]
    #[inline]
    pub fn find(&self, identity: &Identity, guess: usize) -> Option<Found<'_>> {
        match self {
            Self::One(bucket) => {
                let is_it = identity.which == Which::Bucket && identity.name.is_none();
                is_it.then(|| Found::Bucket(Bucket::from(*bucket)))
            }
            Self::Many(limits) => {
                let limit = &limits[position(limits, guess, identity)?];
                limit.state.as_ref().map(Found::State)
            }
        }
    }

    /// The unnamed bucket, ended or not.
    #[must_use]
    pub fn bucket(&self) -> Option<Bucket> {
        match self.find(&Identity::BUCKET, 0)? {
            Found::Bucket(bucket) => Some(bucket),
            Found::State(State::Bucket(bucket)) => Some(Bucket::from(*bucket)),
            Found::State(_) => None,
        }
    }

    /// From this instant on (Unix µs) nothing is used of any limit.
    #[must_use]
    pub fn end_us(&self) -> u64 {
        match self {
            Self::One(bucket) => Bucket::from(*bucket).end_us(),
            Self::Many(limits) => limits.iter().map(Limit::end_us).max().unwrap_or(0),
        }
    }

    /// Every limit that has not ended at `now_us`.
    pub fn live(&self, now_us: u64) -> impl Iterator<Item = (Identity<'_>, Found<'_>)> {
        let (one, many) = match self {
            Self::One(bucket) => (Some(Bucket::from(*bucket)), &[][..]),
            Self::Many(limits) => (None, &limits[..]),
        };
        let one = one
            .filter(|bucket| !bucket.has_ended(now_us))
            .map(|bucket| (Identity::BUCKET, Found::Bucket(bucket)));
        let many = many
            .iter()
            .filter(move |limit| limit.end_us() > now_us)
            .filter_map(|limit| Some((limit.identity(), Found::State(limit.state.as_ref()?))));
        one.into_iter().chain(many)
    }

    /// Every lease limit.
    pub fn lease_limits(&self) -> impl Iterator<Item = (Identity<'_>, &LeaseSet)> {
        let limits = match self {
            Self::One(_) => &[][..],
            Self::Many(limits) => &limits[..],
        };
        limits.iter().filter_map(|limit| match &limit.state {
            Some(State::Lease(leases)) => Some((limit.identity(), &**leases)),
            _ => None,
        })
    }

    /// Takes the subject out, leaving an empty one that costs nothing.
    #[must_use]
    pub fn take(&mut self) -> Self {
        core::mem::replace(self, Self::empty())
    }

    /// Whether the limits that have not ended at `now_us` leave room for those of `new` that are not
    /// among them.
    pub fn has_room<'a>(&self, new: impl Iterator<Item = Identity<'a>>, now_us: u64) -> bool {
        let Self::Many(limits) = self else { return new.count() < MAX_LIMITS };
        // Nearly always there is room whatever is new and whatever has ended.
        if new.size_hint().1.is_some_and(|most| limits.len() + most <= MAX_LIMITS) {
            return true;
        }
        let live = |limit: &&Limit| limit.end_us() > now_us;
        let added = new
            .filter(|identity| !limits.iter().filter(live).any(|limit| limit.is(identity)))
            .count();
        limits.iter().filter(live).count() + added <= MAX_LIMITS
    }

    /// Applies changes that were decided at `now_us`, and drops whatever has ended by then. This is
    /// the only way that a state changes, on a primary as on a replica. `slot` becomes None when
    /// nothing is used any more.
    ///
    /// # Errors
    /// [`Invalid`] when a change does not fit the state; no decided change does that. Changes before
    /// it stay applied.
    pub fn apply(slot: &mut Option<Self>, changes: &[Change], now_us: u64) -> Result<(), Invalid> {
        let mut subject = slot.take().unwrap_or_else(Self::empty);
        let (end_us, applied) = subject.update(changes, now_us);
        *slot = end_us.map(|_| subject);
        applied
    }

    /// The same in place, where nobody else sees that the subject is empty when nothing is left.
    /// Answers also when the last limit ends (Unix µs), `None` when nothing is left.
    pub fn update(
        &mut self,
        changes: &[Change],
        now_us: u64,
    ) -> (Option<u64>, Result<(), Invalid>) {
        if let [(Identity::BUCKET, Delta::Bucket(bucket))] = changes
            && self.holds_only_the_bucket()
        {
            self.set_bucket(bucket);
            return (Some(bucket.end_us()), Ok(()));
        }
        let mut limits = match self.take() {
            Self::One(bucket) => thin_vec![Limit::unnamed_bucket(Bucket::from(bucket))],
            Self::Many(limits) if limits.is_empty() => ThinVec::with_capacity(changes.len()),
            Self::Many(limits) => limits,
        };
        if limits.len() + changes.len() > MAX_LIMITS {
            limits.retain(|limit| limit.end_us() > now_us);
        }
        let mut each = changes.iter().enumerate();
        let applied = each.try_for_each(|(at, change)| apply_one(&mut limits, at, change, now_us));
        let (mut end_us, mut any_ended) = (0, false);
        for limit in &limits {
            let limit_end_us = limit.end_us();
            end_us = limit_end_us.max(end_us);
            any_ended |= limit_end_us <= now_us;
        }
        // Seldom anything has ended or is forgotten, and looking is cheaper than moving.
        if any_ended {
            limits.retain(|limit| limit.end_us() > now_us);
        }
        *self = Self::from_limits(limits);
        ((!self.is_empty()).then_some(end_us), applied)
    }

    /// Whether there is nothing, or the unnamed bucket and nothing else.
    fn holds_only_the_bucket(&self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Many(limits) => match &limits[..] {
                [] => true,
                [limit] => limit.is(&Identity::BUCKET),
                _ => false,
            },
        }
    }

    /// Makes `bucket` all there is.
    fn set_bucket(&mut self, bucket: &Bucket) {
        if let Some(bucket) = CompactBucket::new(bucket) {
            *self = Self::One(bucket);
            return;
        }
        let limit = Limit::unnamed_bucket(*bucket);
        match self {
            // A hot key must not pay for an allocation on each call.
            Self::Many(limits) if limits.len() == 1 => limits[0] = limit,
            _ => *self = Self::Many(thin_vec![limit]),
        }
    }

    /// No limit at all: what a key must not hold.
    fn empty() -> Self {
        Self::Many(ThinVec::new())
    }

    /// Whether there is no limit at all, so that its key must go.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Many(limits) if limits.is_empty())
    }

    /// In the small form, if there is one, and in no more memory than needed.
    fn from_limits(mut limits: ThinVec<Limit>) -> Self {
        if let [Limit { which: Which::Bucket, name: None, state: Some(State::Bucket(bucket)) }] =
            &limits[..]
            && let Some(bucket) = CompactBucket::new(&Bucket::from(*bucket))
        {
            return Self::One(bucket);
        }
        if limits.len() < limits.capacity() {
            limits.shrink_to_fit();
        }
        Self::Many(limits)
    }

    /// Appends every limit, ended or not: a copy of the subject must not depend on a clock.
    pub(crate) fn encode(&self, out: &mut impl Sink) {
        match self {
            Self::One(bucket) => {
                out.put_int(1);
                Identity::BUCKET.encode(false, out);
                Bucket::from(*bucket).encode(out);
            }
            Self::Many(limits) => {
                out.put_int(limits.len() as u64);
                for limit in limits {
                    limit.identity().encode(false, out);
                    if let Some(state) = &limit.state {
                        state.encode(out);
                    }
                }
            }
        }
    }

    /// Reads what [`Subject::encode`] wrote.
    pub(crate) fn decode(source: &mut Source) -> Result<Self, Invalid> {
        let count = source.int(MAX_LIMITS as u64)?;
        let mut limits = ThinVec::new();
        for _ in 0..count {
            let (identity, forget) = Identity::decode(source)?;
            if forget || limits.iter().any(|limit: &Limit| limit.is(&identity)) {
                return Err(Invalid);
            }
            let state = Some(State::decode(identity.which, source)?);
            limits.push(Limit { which: identity.which, name: identity.name.map(Box::from), state });
        }
        if limits.is_empty() {
            return Err(Invalid);
        }
        Ok(Self::from_limits(limits))
    }

    /// Roughly how many allocations freeing it takes.
    #[must_use]
    pub fn free_effort(&self) -> usize {
        let Self::Many(limits) = self else { return 1 };
        limits.iter().filter_map(|limit| limit.state.as_ref()).map(State::free_effort).sum()
    }

    /// Bytes on the heap beyond the subject itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let Self::Many(limits) = self else { return 0 };
        let inner = |limit: &Limit| {
            limit.name.as_ref().map_or(0, |name| name.len())
                + limit.state.as_ref().map_or(0, State::heap_bytes)
        };
        let header = size_of::<[usize; 2]>();
        header + size_of_val(&limits[..]) + limits.iter().map(inner).sum::<usize>()
    }
}

impl Limit {
    fn unnamed_bucket(bucket: Bucket) -> Self {
        let state = Some(State::Bucket(PackedBucket::from(bucket)));
        Self { which: Which::Bucket, name: None, state }
    }
}

/// Where the limit is; see [`Subject::find`].
#[inline]
fn position(limits: &[Limit], guess: usize, identity: &Identity) -> Option<usize> {
    if limits.get(guess).is_some_and(|limit| limit.is(identity)) {
        return Some(guess);
    }
    limits.iter().position(|limit| limit.is(identity))
}

/// Applies a change, whose limit is probably number `guess`.
fn apply_one(
    limits: &mut ThinVec<Limit>,
    guess: usize,
    (identity, delta): &Change,
    now_us: u64,
) -> Result<(), Invalid> {
    if let Some(at) = position(limits, guess, identity) {
        let limit = &mut limits[at];
        return State::apply(&mut limit.state, identity.which, delta, now_us);
    }
    let mut state = None;
    State::apply(&mut state, identity.which, delta, now_us)?;
    if state.is_some() {
        if limits.len() >= MAX_LIMITS {
            return Err(Invalid);
        }
        limits.push(Limit { which: identity.which, name: identity.name.map(Box::from), state });
    }
    Ok(())
}
