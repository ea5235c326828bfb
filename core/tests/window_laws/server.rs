//! The three modes behind one trait, and a primary with a replica that lives on its deltas.

use crate::oracle::Rules;
use core::fmt::Debug;
use redis_limiter_core::law::{Ask, Charging, Outcome, Usage, decide};
use redis_limiter_core::window::{Fixed, Log, Sliding, Summary, fixed, log, sliding};
use redis_limiter_core::wire::{Invalid, Source};

pub trait Mode: Clone + Debug + PartialEq {
    type View<'a>: Usage + Copy;
    type Delta: Clone + Debug + PartialEq;
    const RULES: Rules;
    fn view(state: Option<&Self>, length_ms: u64, now_us: u64) -> Self::View<'_>;
    fn charge(view: &Self::View<'_>, units: u64) -> Self::Delta;
    fn settle(view: &Self::View<'_>) -> Option<Self::Delta>;
    fn refund(view: &Self::View<'_>, units: u64, age_us: u64) -> Option<Self::Delta>;
    fn summary(view: &Self::View<'_>) -> Option<Summary>;
    fn apply(
        state: &mut Option<Self>,
        length_ms: u64,
        delta: &Self::Delta,
        now_us: u64,
    ) -> Result<(), Invalid>;
    fn end_us(&self, length_ms: u64) -> u64;
    fn encode(&self) -> Vec<u8>;
    fn decode(source: &mut Source, length_ms: u64) -> Result<Self, Invalid>;
    fn encode_delta(delta: &Self::Delta) -> Vec<u8>;
    fn decode_delta(source: &mut Source) -> Result<Self::Delta, Invalid>;
}

macro_rules! mode {
    ($state:ident, $module:ident, $view:ty, $decode:expr, $apply:expr) => {
        impl Mode for $state {
            type View<'a> = $view;
            type Delta = $module::Delta;
            const RULES: Rules = Rules::$state;
            fn view(state: Option<&Self>, length_ms: u64, now_us: u64) -> Self::View<'_> {
                $module::View::new(state, length_ms, now_us)
            }
            fn charge(view: &Self::View<'_>, units: u64) -> Self::Delta {
                view.charge(units)
            }
            fn settle(view: &Self::View<'_>) -> Option<Self::Delta> {
                view.settle()
            }
            fn refund(view: &Self::View<'_>, units: u64, age_us: u64) -> Option<Self::Delta> {
                view.refund(units, age_us)
            }
            fn summary(view: &Self::View<'_>) -> Option<Summary> {
                view.summary()
            }
            fn apply(
                state: &mut Option<Self>,
                length_ms: u64,
                delta: &Self::Delta,
                now_us: u64,
            ) -> Result<(), Invalid> {
                $apply(state, length_ms, delta, now_us)
            }
            fn end_us(&self, length_ms: u64) -> u64 {
                self.end_us(length_ms)
            }
            fn encode(&self) -> Vec<u8> {
                let mut bytes = Vec::new();
                self.encode(&mut bytes);
                bytes
            }
            fn decode(source: &mut Source, length_ms: u64) -> Result<Self, Invalid> {
                $decode(source, length_ms)
            }
            fn encode_delta(delta: &Self::Delta) -> Vec<u8> {
                let mut bytes = Vec::new();
                delta.encode(&mut bytes);
                bytes
            }
            fn decode_delta(source: &mut Source) -> Result<Self::Delta, Invalid> {
                $module::Delta::decode(source)
            }
        }
    };
}

mode!(Fixed, fixed, fixed::View, |source, _| Fixed::decode(source), fixed::apply);
mode!(
    Sliding,
    sliding,
    sliding::View<'a>,
    Sliding::decode,
    |state: &mut Option<Sliding>, length_ms, delta, now_us| {
        let mut boxed = state.take().map(Box::new);
        let applied = sliding::apply(&mut boxed, length_ms, delta, now_us);
        *state = boxed.map(|window| *window);
        applied
    }
);
mode!(Log, log, log::View<'a>, |source, _| Log::decode(source), log::apply);

/// A primary and its replica, which must be equal after every call.
pub struct Server<M> {
    pub length_ms: u64,
    pub primary: Option<M>,
    replica: Option<M>,
}

impl<M: Mode> Server<M> {
    pub const fn new(length_ms: u64) -> Self {
        Self { length_ms, primary: None, replica: None }
    }

    pub fn take(&mut self, limit: u64, ask: &Ask, now_us: u64) -> Outcome {
        let view = M::view(self.primary.as_ref(), self.length_ms, now_us);
        let outcome = decide(&view, limit, ask).unwrap();
        let delta = match outcome {
            Outcome::Admit { units, .. } => Some(M::charge(&view, units)),
            Outcome::Refuse { .. } => M::settle(&view),
        };
        self.write(delta, now_us);
        outcome
    }

    pub fn force(&mut self, units: u64, now_us: u64) {
        self.take(0, &Ask { cost: units, leave: 0, charging: Charging::Force }, now_us);
    }

    /// Whether anything was written.
    pub fn refund(&mut self, units: u64, age_us: u64, now_us: u64) -> bool {
        let view = M::view(self.primary.as_ref(), self.length_ms, now_us);
        let delta = M::refund(&view, units, age_us);
        self.write(delta.clone(), now_us);
        delta.is_some()
    }

    fn write(&mut self, delta: Option<M::Delta>, now_us: u64) {
        let Some(delta) = delta else { return };
        let bytes = M::encode_delta(&delta);
        let mut source = Source::new(&bytes);
        let received = M::decode_delta(&mut source).unwrap();
        assert!(source.is_empty());
        assert_eq!(received, delta);
        M::apply(&mut self.primary, self.length_ms, &delta, now_us).unwrap();
        M::apply(&mut self.replica, self.length_ms, &received, now_us).unwrap();
        assert_eq!(self.primary, self.replica);
        assert_eq!(self.primary.as_ref().map(M::encode), self.replica.as_ref().map(M::encode));
        // Nothing is left to move, and what is stored is in use.
        let view = M::view(self.primary.as_ref(), self.length_ms, now_us);
        assert_eq!(M::settle(&view), None);
        assert_eq!(self.primary.is_some(), view.used() > 0);
        if let Some(state) = &self.primary {
            assert_eq!(state.end_us(self.length_ms), now_us + view.reset_us());
        }
    }

    /// Saves the replica and loads it again.
    pub fn reload_replica(&mut self) {
        let Some(state) = &self.replica else { return };
        let bytes = state.encode();
        let mut source = Source::new(&bytes);
        self.replica = Some(M::decode(&mut source, self.length_ms).unwrap());
        assert!(source.is_empty());
        assert_eq!(self.primary, self.replica);
        assert_eq!(self.replica.as_ref().map(M::encode), Some(bytes));
    }
}
