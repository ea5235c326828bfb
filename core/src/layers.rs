//! Layered limits: check all, then charge all or none.

use crate::calendar::Periods;
use crate::law::Outcome;
use crate::limit::Layer;
use crate::state::{Fault, View};
use crate::subject::{Change, Subject};
use crate::verdict::Verdict;

/// What every layer of one key says to a call, before anything is charged.
#[derive(Debug)]
pub struct Plan<'s> {
    layers: Vec<(View<'s>, Outcome)>,
}

impl<'s> Plan<'s> {
    /// Asks every layer.
    ///
    /// # Errors
    /// The first [`Fault`] of a layer.
    pub fn check(
        subject: Option<&'s Subject>,
        layers: &[Layer],
        now_us: u64,
        calendar: &mut impl Periods,
    ) -> Result<Self, Fault> {
        let mut asked = Vec::with_capacity(layers.len());
        for layer in layers {
            let view = View::new(subject, layer, now_us, calendar);
            let outcome = view.decide(layer)?;
            asked.push((view, outcome));
        }
        Ok(Self { layers: asked })
    }

    /// Whether every layer admits.
    #[must_use]
    pub fn admits(&self) -> bool {
        self.layers.iter().all(|(_, outcome)| matches!(outcome, Outcome::Admit { .. }))
    }

    /// The changes of a call that all layers of all keys admit.
    #[must_use]
    pub fn charge<'a>(&self, layers: &[Layer<'a>]) -> Vec<Change<'a>> {
        self.changes(layers, |view, layer, outcome| view.charge(layer, outcome))
    }

    /// Whether charging lengthens a log or a set of leases.
    #[must_use]
    pub fn grows(&self, layers: &[Layer]) -> bool {
        let each = layers.iter().zip(&self.layers);
        each.into_iter().any(|(layer, (view, outcome))| {
            view.can_grow() && view.charge(layer, *outcome).is_some_and(|delta| view.grows(&delta))
        })
    }

    /// The changes that the clock rule makes under a refused call; a layer of cost 0 never writes.
    #[must_use]
    pub fn settle<'a>(&self, layers: &[Layer<'a>]) -> Vec<Change<'a>> {
        self.changes(layers, |view, layer, _| view.settle().filter(|_| layer.ask.cost > 0))
    }

    /// The changes of a refund, for a charge made `age_us` ago.
    #[must_use]
    pub fn refund<'a>(&self, layers: &[Layer<'a>], age_us: u64) -> Vec<Change<'a>> {
        self.changes(layers, |view, layer, _| view.refund(layer, age_us))
    }

    fn changes<'a>(
        &self,
        layers: &[Layer<'a>],
        change: impl Fn(&View, &Layer<'a>, Outcome) -> Option<crate::state::Delta>,
    ) -> Vec<Change<'a>> {
        let mut changes = Vec::with_capacity(layers.len());
        for (layer, (view, outcome)) in layers.iter().zip(&self.layers) {
            if let Some(delta) = change(view, layer, *outcome) {
                changes.push((layer.identity(), delta));
            }
        }
        changes
    }

    /// One layer's five integers as things stand, uncharged.
    #[must_use]
    pub fn verdict(&self, index: usize, layer: &Layer) -> Option<Verdict> {
        self.layers.get(index).map(|(view, outcome)| view.verdict(layer, *outcome))
    }

    /// Every layer's five integers as things stand, uncharged.
    #[must_use]
    pub fn verdicts(&self, layers: &[Layer]) -> Vec<Verdict> {
        let each = layers.iter().zip(&self.layers);
        each.map(|(layer, (view, outcome))| view.verdict(layer, *outcome)).collect()
    }

    /// How many further calls each layer admits after this one; `u64::MAX` for a layer of cost 0.
    #[must_use]
    pub fn further_calls(&self, layers: &[Layer]) -> Vec<u64> {
        let each = layers.iter().zip(&self.layers);
        each.map(|(layer, (view, outcome))| view.further_calls(layer, *outcome)).collect()
    }

    /// What [`first_least`] of all layers of all keys names the deciding one. `admitted` says whether
    /// all of them admit.
    pub fn leeways(&self, layers: &[Layer], admitted: bool) -> impl Iterator<Item = u64> {
        let each = layers.iter().zip(&self.layers);
        each.map(move |(layer, (view, outcome))| {
            if admitted { view.further_calls(layer, *outcome) } else { leeway_refused(*outcome) }
        })
    }

    /// What every layer says.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        self.layers.iter().map(|(_, outcome)| *outcome)
    }
}

/// Makes the promise of a refused call true. A held lease id is admitted now, but when its lease ends
/// before the other layers admit, the call has to wait for a new lease, too: such a layer counts as
/// refusing. All other layers that admit now do so later as well.
pub fn look_ahead(plans: &mut [Plan], layers: &[&[Layer]]) {
    while let Some(wait_ms) = longest_wait_ms(plans) {
        let mut changed = false;
        for (plan, layers) in plans.iter_mut().zip(layers) {
            for ((view, outcome), layer) in plan.layers.iter_mut().zip(*layers) {
                if matches!(outcome, Outcome::Admit { .. })
                    && let Some((over_ms, anew)) = view.lapse(layer)
                    && over_ms <= wait_ms
                    && wait_ms_of(anew).is_none_or(|anew_ms| anew_ms > wait_ms)
                {
                    *outcome = anew;
                    changed = true;
                }
            }
        }
        if !changed {
            return;
        }
    }
}

/// How long the layers refuse; `None` when none does, or one for ever.
fn longest_wait_ms(plans: &[Plan]) -> Option<u64> {
    let outcomes = plans.iter().flat_map(Plan::outcomes);
    let waits = outcomes.filter(|outcome| matches!(outcome, Outcome::Refuse { .. }));
    waits
        .map(wait_ms_of)
        .try_fold(0, |longest, wait_ms| Some(longest.max(wait_ms?)))
        .filter(|&ms| ms > 0)
}

/// Milliseconds until `outcome` is an admission; `None` for never.
fn wait_ms_of(outcome: Outcome) -> Option<u64> {
    match outcome {
        Outcome::Admit { .. } => Some(0),
        Outcome::Refuse { retry_after_ms } => u64::try_from(retry_after_ms).ok(),
    }
}

/// The index of the layer that decides. Refused: the refusing layer with the longest wait, −1 being
/// the longest. Admitted: the one with the fewest further calls. Ties go to the first.
#[must_use]
pub fn deciding_layer(outcomes: &[Outcome], further_calls: &[u64]) -> usize {
    if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Refuse { .. })) {
        first_least(outcomes.iter().map(|outcome| leeway_refused(*outcome)))
    } else {
        first_least(further_calls.iter().copied())
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
#[must_use]
pub fn first_least(values: impl Iterator<Item = u64>) -> usize {
    values.enumerate().min_by_key(|&(index, value)| (value, index)).map_or(0, |(index, _)| index)
}
