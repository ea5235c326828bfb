//! The one law of waits, for every kind of limit, every option and whole layered calls.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by them")]

mod support;

use proptest::prelude::*;
use redis_limiter_core::law::{Ask, Charging, Outcome};
use redis_limiter_core::layers::{Changes, Plan};
use redis_limiter_core::limit::{Layer, Params};
use redis_limiter_core::state::View;
use redis_limiter_core::units::MAX_INSTANT_US;
use redis_limiter_core::verdict::Verdict;
use redis_limiter_core::window::WindowMode;
use support::{Key, START_US, admits, after, layers, step_us, with_options};

/// The wait of a refused call: of its refusing layers the longest, −1 being longer than any.
fn longest_wait(outcomes: &[Outcome]) -> Option<i64> {
    let waits = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Refuse { retry_after_ms } => Some(*retry_after_ms),
        Outcome::Admit { .. } => None,
    });
    waits.max_by_key(|&wait| if wait < 0 { i64::MAX } else { wait })
}

/// Whether the call can never succeed, by the words of the contract.
fn is_hopeless(layer: &Layer) -> bool {
    let needed = if layer.ask.charging == Charging::UpTo { 1 } else { layer.ask.cost };
    let forced = layer.ask.charging == Charging::Force;
    !forced && (layer.capacity() == 0 || needed + layer.ask.leave > layer.capacity())
}

/// A lease that is held is admitted whatever else is held. Once it has ended it has to be asked for
/// like any other: then a layered call can find itself refused where it was not before.
fn was_admitted_as_held(layer: &Layer, outcome: Outcome) -> bool {
    let is_lease = matches!(layer.params, Params::Lease { .. }) && layer.ask.cost > 0;
    is_lease && matches!(outcome, Outcome::Admit { units: 0, .. })
}

/// `retry_after_ms` later the same call succeeds, 1 ms earlier it is refused; −1 is for ever.
fn check_retry(key: &mut Key, layers: &[Layer<'static>], now_us: u64) -> Result<(), TestCaseError> {
    let Ok(outcomes) = key.ask(layers, now_us) else { return Ok(()) };
    let mut hopeless = false;
    for (layer, &outcome) in layers.iter().zip(&outcomes) {
        let is_hopeless = is_hopeless(layer) && !was_admitted_as_held(layer, outcome);
        prop_assert!(!is_hopeless || !admits(outcome));
        hopeless |= is_hopeless;
    }
    let Some(wait_ms) = longest_wait(&outcomes) else { return Ok(()) };
    prop_assert_eq!(wait_ms == -1, hopeless, "{:?}", outcomes);
    if hopeless {
        let end_us = key.subject.as_ref().map_or(now_us, |subject| subject.end_us()).max(now_us);
        for then_us in [now_us + 1_000, end_us.min(MAX_INSTANT_US), MAX_INSTANT_US] {
            // By then a lease id may be held with another number of slots no more, but never less.
            if let Ok(outcomes) = key.ask(layers, then_us) {
                prop_assert_eq!(longest_wait(&outcomes), Some(-1));
            }
        }
        return Ok(());
    }
    prop_assert!(wait_ms >= 1);
    let then_us = now_us.saturating_add(wait_ms.unsigned_abs().saturating_mul(1000));
    if then_us > MAX_INSTANT_US {
        return Ok(());
    }
    let earlier = key.ask(layers, then_us - 1000).expect("no new fault");
    prop_assert!(!earlier.iter().copied().all(admits), "{:?} sooner {:?}", outcomes, earlier);
    let later = key.ask(layers, then_us).expect("no new fault");
    for ((layer, &outcome), &later) in layers.iter().zip(&outcomes).zip(&later) {
        let must_admit = !was_admitted_as_held(layer, outcome);
        prop_assert!(!must_admit || admits(later), "{:?} later {:?}", outcome, later);
    }
    Ok(())
}

fn verdicts(plan: &Plan, layers: &[Layer]) -> Vec<Verdict> {
    plan.verdicts(layers, 0..layers.len()).collect()
}

/// What the clock rule changes.
fn moves<'a>(plan: &Plan, layers: &[Layer<'a>]) -> Changes<'a> {
    let mut changes = Changes::new();
    plan.settle(0, layers, &mut changes);
    changes
}

/// What a call answers before it charges anything is what the same call then does.
fn check_take(
    key: &mut Key,
    layers: &[Layer<'static>],
    now_us: u64,
) -> Result<bool, TestCaseError> {
    let Ok(plan) = key.plan(layers, now_us) else { return Ok(false) };
    let admitted = plan.admits();
    let outcomes: Vec<_> = plan.outcomes().collect();
    let further: Vec<_> = plan.further_calls(layers).collect();
    let (peeked, deciding) = (verdicts(&plan, layers), plan.deciding(layers));
    drop(plan);
    let before = key.subject.clone();
    key.take(layers, now_us).expect("no fault while peeking");

    let seen = key.plan(layers, now_us);
    if !admitted {
        // Only the clock rule may have written, and it changes no answer.
        let seen = seen.expect("refused as before");
        prop_assert_eq!(verdicts(&seen, layers), peeked.clone());
        let waits: Vec<_> =
            peeked.iter().map(|v| if v.allowed == 1 { 0 } else { v.retry_after_ms }).collect();
        let longest = waits.iter().position(|&w| w == longest_wait(&outcomes).unwrap());
        prop_assert_eq!(Some(deciding), longest);
        return Ok(false);
    }
    drop(seen);
    // By the contract: the fewest of (remaining − LEAVE) ÷ cost, cost 0 last, ties to the first.
    // A forced charge may have made another like it an error, so remaining is asked for with cost 0.
    let free: Vec<_> = layers
        .iter()
        .cloned()
        .map(|mut layer| {
            layer.ask.cost = 0;
            layer
        })
        .collect();
    if before.is_some() || key.subject.is_some() {
        let plan = key.plan(&free, now_us).expect("cost 0 is no fault");
        let remaining = verdicts(&plan, &free);
        drop(plan);
        let calls: Vec<u64> = layers
            .iter()
            .zip(&remaining)
            .map(|(layer, verdict)| {
                let rest = verdict.remaining.saturating_sub(layer.ask.leave);
                rest.checked_div(layer.ask.cost).unwrap_or(u64::MAX)
            })
            .collect();
        prop_assert_eq!(&calls, &further);
        let fewest = calls.iter().position(|n| n == calls.iter().min().unwrap());
        prop_assert_eq!(Some(deciding), fewest);
    }
    Ok(true)
}

/// What a call sees after its own charge without looking again is what looking again shows.
fn check_after(key: &Key, layer: &Layer<'static>, now_us: u64) -> Result<(), TestCaseError> {
    let mut key = Key { subject: key.subject.clone(), ..Key::default() };
    let view = View::new(key.subject.as_ref(), 0, layer, now_us, &mut key.calendar);
    let Ok(outcome) = view.decide(layer) else { return Ok(()) };
    let Some(delta) = view.charge(layer, outcome) else { return Ok(()) };
    let Some(after) = view.after(&delta) else { return Ok(()) };
    key.apply(&[(layer.identity(), delta)], now_us);
    // Any guess finds the limit.
    let again = View::new(key.subject.as_ref(), 1, layer, now_us, &mut key.calendar);
    prop_assert_eq!(after.verdict(layer, outcome), again.verdict(layer, outcome));
    Ok(())
}

/// Giving back what was just taken leaves as much in use as before, of each layer.
fn check_undo(key: &mut Key, layers: &[Layer<'static>], now_us: u64) -> Result<(), TestCaseError> {
    let layers: Vec<_> =
        layers.iter().filter(|l| !matches!(l.params, Params::Lease { .. })).cloned().collect();
    let before = key.subject.clone();
    let Ok(plan) = key.plan(&layers, now_us) else { return Ok(()) };
    let seen = verdicts(&plan, &layers);
    let was_unused: Vec<bool> = layers
        .iter()
        .zip(&seen)
        .map(|(layer, verdict)| verdict.remaining == layer.capacity())
        .collect();
    if !plan.admits() {
        return Ok(());
    }
    drop(plan);
    key.take(&layers, now_us).expect("planned");
    key.refund(&layers, 0, now_us);
    let again = verdicts(&key.plan(&layers, now_us).expect("as before"), &layers);
    for ((before, again), layer) in seen.iter().zip(&again).zip(&layers) {
        prop_assert_eq!(before.remaining, again.remaining);
        // A bucket ends as the rate of the last charge says, other windows gave back the oldest.
        if matches!(
            layer.params,
            Params::Quota { .. } | Params::Window { mode: WindowMode::Fixed, .. }
        ) {
            prop_assert_eq!(before, again);
        }
    }
    if was_unused.iter().all(|unused| *unused) && before.is_none() {
        prop_assert!(key.subject.is_none(), "{:?}", key.subject);
    }
    key.subject = before;
    Ok(())
}

/// The key after the clock rule, which a call of cost 0 does not write: a wait that it is told counts
/// from the next call that does.
fn settled(key: &Key, layers: &[Layer<'static>], now_us: u64) -> Key {
    let mut settled = Key { subject: key.subject.clone(), ..Key::default() };
    for mut layer in layers.iter().cloned() {
        layer.ask = Ask::whole(1);
        if let Params::Lease { id, .. } = &mut layer.params {
            *id = Some(b"nobody");
        }
        let layer = [layer];
        let changes = settled.plan(&layer, now_us).map(|plan| moves(&plan, &layer));
        settled.apply(&changes.unwrap_or_default(), now_us);
    }
    settled
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn waits_are_exact_and_peeking_tells_what_taking_does(
        calls in prop::collection::vec((step_us(), layers(5)), 1..40),
    ) {
        let (mut key, mut now_us, mut stepped_back) = (Key::default(), START_US, false);
        for (step, layers) in calls {
            now_us = after(now_us, step);
            stepped_back |= step < 0;
            let said = key.plan(&layers, now_us).map(|plan| (plan.admits(), moves(&plan, &layers)));
            if let Ok((admitted, moves)) = said {
                prop_assert!(stepped_back || moves.is_empty());
                prop_assert!(
                    admitted || stepped_back || key.take(&layers, now_us).unwrap().is_empty()
                );
            }
            for layer in layers.iter().flat_map(with_options) {
                check_after(&key, &layer, now_us)?;
            }
            check_undo(&mut key, &layers, now_us)?;
            check_take(&mut key, &layers, now_us)?;
            let mut settled = settled(&key, &layers, now_us);
            for layer in layers.iter().flat_map(with_options) {
                check_retry(&mut settled, &[layer], now_us)?;
            }
            check_retry(&mut settled, &layers, now_us)?;
        }
    }
}
