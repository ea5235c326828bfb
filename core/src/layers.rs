//! Layered limits: check all, then charge all or none.

use crate::calendar::Periods;
use crate::law::Outcome;
use crate::limit::{Layer, MAX_LAYERS};
use crate::state::{Delta, Fault, View};
use crate::subject::{Change, Subject};
use crate::verdict::Verdict;
use arrayvec::ArrayVec;
use core::ops::Range;

/// The changes of a call, key after key; at most one a layer.
pub type Changes<'a> = ArrayVec<Change<'a>, MAX_LAYERS>;

/// What every layer of a call says, key after key, before anything is charged.
#[derive(Debug, Default)]
pub struct Plan<'s> {
    asked: ArrayVec<Asked<'s>, MAX_LAYERS>,
}

#[derive(Debug)]
struct Asked<'s> {
    view: View<'s>,
    outcome: Outcome,
}

impl Asked<'_> {
    const fn admits(&self) -> bool {
        matches!(self.outcome, Outcome::Admit { .. })
    }
}

impl<'s> Plan<'s> {
    /// Asks every layer of one key, and no other.
    ///
    /// # Errors
    /// As [`Plan::ask`].
    pub fn check(
        subject: Option<&'s Subject>,
        layers: &[Layer],
        now_us: u64,
        calendar: &mut impl Periods,
    ) -> Result<Self, Fault> {
        let mut plan = Self::default();
        plan.ask(subject, layers, now_us, calendar)?;
        Ok(plan)
    }

    /// Asks every layer of one more key.
    ///
    /// # Errors
    /// The first [`Fault`] of a layer.
    ///
    /// # Panics
    /// Beyond [`MAX_LAYERS`] layers.
    pub fn ask(
        &mut self,
        subject: Option<&'s Subject>,
        layers: &[Layer],
        now_us: u64,
        calendar: &mut impl Periods,
    ) -> Result<(), Fault> {
        for (index, layer) in layers.iter().enumerate() {
            let view = View::new(subject, index, layer, now_us, calendar);
            let outcome = view.decide(layer)?;
            self.asked.push(Asked { view, outcome });
        }
        Ok(())
    }

    /// Whether every layer admits.
    #[must_use]
    pub fn admits(&self) -> bool {
        self.asked.iter().all(Asked::admits)
    }

    /// Appends the changes of one key, whose first layer is number `first`, under a call that all
    /// layers admit.
    pub fn charge<'a>(&self, first: usize, layers: &[Layer<'a>], changes: &mut Changes<'a>) {
        self.change(first, layers, changes, |view, layer, outcome| view.charge(layer, outcome));
    }

    /// Whether charging that key lengthens a log or a set of leases.
    #[must_use]
    pub fn grows(&self, first: usize, layers: &[Layer]) -> bool {
        self.each(first, layers).any(|(Asked { view, outcome }, layer)| {
            view.can_grow() && view.charge(layer, *outcome).is_some_and(|delta| view.grows(&delta))
        })
    }

    /// Appends the changes that the clock rule makes to that key under a refused call; a layer of
    /// cost 0 never writes.
    pub fn settle<'a>(&self, first: usize, layers: &[Layer<'a>], changes: &mut Changes<'a>) {
        self.change(
            first,
            layers,
            changes,
            |view, layer, _| {
                if layer.ask.cost > 0 { view.settle() } else { None }
            },
        );
    }

    /// Appends the changes that a refund makes to that key, for a charge made `age_us` ago.
    pub fn refund<'a>(
        &self,
        first: usize,
        layers: &[Layer<'a>],
        age_us: u64,
        changes: &mut Changes<'a>,
    ) {
        self.change(first, layers, changes, |view, layer, _| view.refund(layer, age_us));
    }

    #[inline]
    fn change<'a>(
        &self,
        first: usize,
        layers: &[Layer<'a>],
        changes: &mut Changes<'a>,
        change: impl Fn(&View, &Layer<'a>, Outcome) -> Option<Delta>,
    ) {
        for (Asked { view, outcome }, layer) in self.each(first, layers) {
            if let Some(delta) = change(view, layer, *outcome) {
                changes.push((layer.identity(), delta));
            }
        }
    }

    fn each<'p, 'l, 'a>(
        &'p self,
        first: usize,
        layers: &'l [Layer<'a>],
    ) -> impl Iterator<Item = (&'p Asked<'s>, &'l Layer<'a>)> {
        self.asked.iter().skip(first).zip(layers)
    }

    /// The five integers of the layers `shown`, as things stand, uncharged.
    pub fn verdicts(&self, layers: &[Layer], shown: Range<usize>) -> impl Iterator<Item = Verdict> {
        let each = self.each(0, layers).skip(shown.start).take(shown.len());
        each.map(|(Asked { view, outcome }, layer)| view.verdict(layer, *outcome))
    }

    /// How many further calls each layer admits after this one; `u64::MAX` for a layer of cost 0.
    pub fn further_calls(&self, layers: &[Layer]) -> impl Iterator<Item = u64> {
        self.each(0, layers)
            .map(|(Asked { view, outcome }, layer)| view.further_calls(layer, *outcome))
    }

    /// The index of the layer that decides. Refused: the refusing layer with the longest wait, −1
    /// being the longest. Admitted: the one with the fewest further calls. Ties go to the first.
    #[must_use]
    pub fn deciding(&self, layers: &[Layer]) -> usize {
        if self.admits() {
            first_least(self.further_calls(layers))
        } else {
            first_least(self.outcomes().map(leeway_refused))
        }
    }

    /// What every layer says.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        self.asked.iter().map(|asked| asked.outcome)
    }

    /// Makes the promise of a refused call true. A held lease id is admitted now, but when its lease
    /// ends before the other layers admit, the call has to wait for a new lease, too: such a layer
    /// counts as refusing. All other layers that admit now do so later as well.
    pub fn look_ahead(&mut self, layers: &[Layer]) {
        while let Some(wait_ms) = self.longest_wait_ms() {
            let mut changed = false;
            for (asked, layer) in self.asked.iter_mut().zip(layers) {
                if asked.admits()
                    && let Some((over_ms, anew)) = asked.view.lapse(layer)
                    && over_ms <= wait_ms
                    && wait_ms_of(anew).is_none_or(|anew_ms| anew_ms > wait_ms)
                {
                    asked.outcome = anew;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// How long the layers refuse; `None` when none does, or one for ever.
    fn longest_wait_ms(&self) -> Option<u64> {
        let refusing = self.asked.iter().filter(|asked| !asked.admits());
        refusing
            .map(|asked| wait_ms_of(asked.outcome))
            .try_fold(0, |longest, wait_ms| Some(longest.max(wait_ms?)))
            .filter(|&ms| ms > 0)
    }
}

/// Milliseconds until `outcome` is an admission; `None` for never.
fn wait_ms_of(outcome: Outcome) -> Option<u64> {
    match outcome {
        Outcome::Admit { .. } => Some(0),
        Outcome::Refuse { retry_after_ms } => u64::try_from(retry_after_ms).ok(),
    }
}

/// Of a refused call: the longer the wait, the less.
fn leeway_refused(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Admit { .. } => u64::MAX,
        Outcome::Refuse { retry_after_ms: ..0 } => 0,
        Outcome::Refuse { retry_after_ms } => u64::MAX - retry_after_ms.unsigned_abs(),
    }
}

/// The index of the smallest value, the first of several; 0 of none.
fn first_least(values: impl Iterator<Item = u64>) -> usize {
    let (mut least, mut at) = (u64::MAX, 0);
    for (index, value) in values.enumerate() {
        if value < least {
            (least, at) = (value, index);
        }
    }
    at
}
