//! What the tests of whole calls share: random layers of every kind with every option, and a key
//! that is called in the order in which a server works.
#![allow(dead_code, reason = "each test file uses a part of it")]

use proptest::prelude::*;
use proptest::sample::select;
use redis_limiter_core::calendar::{Anchor, Calendar, Period, Zone};
use redis_limiter_core::law::{Ask, Charging, Outcome};
use redis_limiter_core::layers::{Changes, Plan};
use redis_limiter_core::limit::{Layer, Params, Which};
use redis_limiter_core::state::{Delta, Fault, State, View};
use redis_limiter_core::subject::{Change, Found, Subject};
use redis_limiter_core::units::Rate;
use redis_limiter_core::window::WindowMode;

/// An instant that lies on no whole millisecond: 2023-11-14.
pub const START_US: u64 = 1_700_000_000_123_456;

const NAMES: [Option<&[u8]>; 4] = [None, None, Some(b"a"), Some(b"\0\xff b")];
const IDS: [&[u8]; 5] = [b"1", b"2", b"3", b"four", b"\xff\0"];

fn zone(name: &[u8]) -> Zone {
    Calendar::new().zone(name).expect("a zone of the database")
}

pub fn rate() -> impl Strategy<Value = Rate> {
    const TEXTS: [&str; 9] =
        ["1", "5", "0.3", "10/100ms", "7/3m", "1/d", "1/366d", "999.999999", "1000000000"];
    // The slowest of CL.THROTTLE: one unit in 292 years.
    let slowest = Just(Rate::per_seconds(1, 9_223_372_036).expect("a rate"));
    prop_oneof![
        9 => select(&TEXTS[..]).prop_map(|text| Rate::parse(text.as_bytes()).expect("a rate")),
        1 => slowest,
    ]
}

/// Mostly small, so that limits are reached; also the extremes.
fn limit() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 20 => 1..12u64, 1 => Just((1 << 53) - 1)]
}

fn params() -> impl Strategy<Value = Params<'static>> {
    let length_ms = select(vec![16u64, 17, 100, 1_000, 61_001, 86_400_000, 366 * 86_400_000]);
    let mode = select(vec![WindowMode::Sliding, WindowMode::Fixed, WindowMode::Log]);
    let zones = select(vec![&b"UTC"[..], b"Europe/Berlin", b"Asia/Kathmandu"]);
    let lease =
        (limit(), select(vec![1u64, 20, 1_000, 3_600_000]), select(&IDS[..]), any::<bool>());
    prop_oneof![
        3 => (rate(), limit()).prop_map(|(rate, burst)| Params::Bucket { rate, burst }),
        4 => (mode, length_ms, limit()).prop_map(|(mode, length_ms, limit)| Params::Window {
            mode,
            length_ms,
            limit: if mode == WindowMode::Log { limit.min(65_536) } else { limit },
        }),
        2 => (select(&Period::ALL[..]), zones, limit()).prop_map(|(period, name, limit)| {
            Params::Quota { period, zone: zone(name), anchor: Anchor::FIRST, limit }
        }),
        2 => lease.prop_map(|(limit, ttl_ms, id, nx)| Params::Lease {
            limit, ttl_ms, id: Some(id), nx,
        }),
    ]
}

/// A layer as RL.TAKE has them: charged as a whole.
pub fn layer() -> impl Strategy<Value = Layer<'static>> {
    let cost = prop_oneof![2 => Just(0), 20 => 1..6u64];
    let leave = prop_oneof![3 => Just(0), 1 => 0..5u64];
    (params(), select(&NAMES[..]), cost, leave).prop_map(|(params, name, cost, leave)| Layer {
        params,
        name,
        ask: Ask { cost, leave, charging: Charging::Whole },
    })
}

/// Layers with different identities; all of them forced now and then.
pub fn layers(most: usize) -> impl Strategy<Value = Vec<Layer<'static>>> {
    (prop::collection::vec(layer(), 1..=most), prop::bool::weighted(0.1)).prop_map(
        |(layers, force)| {
            let mut distinct: Vec<Layer> = Vec::new();
            for mut layer in layers {
                if distinct.iter().all(|other| other.identity() != layer.identity()) {
                    if force {
                        layer.ask = Ask { leave: 0, charging: Charging::Force, ..layer.ask };
                    }
                    distinct.push(layer);
                }
            }
            distinct
        },
    )
}

/// The commands on one limit allow more options than a layer.
pub fn with_options(layer: &Layer<'static>) -> Vec<Layer<'static>> {
    let ask = layer.ask;
    let mut asks = vec![ask, Ask { charging: Charging::Force, leave: 0, ..ask }];
    if !matches!(layer.params, Params::Lease { .. }) {
        asks.push(Ask { charging: Charging::UpTo, cost: ask.cost.max(1), ..ask });
    }
    if matches!(layer.params, Params::Bucket { .. }) {
        asks.extend(
            [1, 777, 3_600_000].map(|ms| Ask { charging: Charging::MaxWait { ms }, ..ask }),
        );
    }
    asks.into_iter().map(|ask| Layer { ask, ..layer.clone() }).collect()
}

/// Microseconds until the next call; the clock may step back.
pub fn step_us() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => Just(0i64),
        3 => 0..2_000i64,
        6 => 0..50_000i64,
        6 => 0..2_000_000i64,
        3 => 0..200_000_000_000i64,
        1 => -3_000..0i64,
        1 => -10_000_000_000..0i64,
    ]
}

/// `now` after a step, never before the epoch.
pub fn after(now_us: u64, step_us: i64) -> u64 {
    now_us.saturating_add_signed(step_us)
}

pub fn admits(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Admit { .. })
}

/// What is stored under a key, called in the order in which a server works.
#[derive(Default)]
pub struct Key {
    pub subject: Option<Subject>,
    pub calendar: Calendar,
}

impl Key {
    pub fn plan(&mut self, layers: &[Layer<'static>], now_us: u64) -> Result<Plan<'_>, Fault> {
        Plan::check(self.subject.as_ref(), layers, now_us, &mut self.calendar)
    }

    /// What each layer says, or the first fault.
    pub fn ask(&mut self, layers: &[Layer<'static>], now_us: u64) -> Result<Vec<Outcome>, Fault> {
        Ok(self.plan(layers, now_us)?.outcomes().collect())
    }

    pub fn apply(&mut self, changes: &[Change], now_us: u64) {
        if !changes.is_empty() {
            Subject::apply(&mut self.subject, changes, now_us).expect("a decided change fits");
        }
    }

    /// Check all, charge all or none (then only the clock rule writes), as long as the key has room.
    pub fn take(
        &mut self,
        layers: &[Layer<'static>],
        now_us: u64,
    ) -> Result<Changes<'static>, Fault> {
        let plan = self.plan(layers, now_us)?;
        let mut changes = Changes::new();
        if plan.admits() {
            plan.charge(0, layers, &mut changes);
        } else {
            plan.settle(0, layers, &mut changes);
        }
        drop(plan);
        let new = changes.iter().map(|(identity, _)| *identity);
        if self.subject.as_ref().is_some_and(|subject| !subject.has_room(new, now_us)) {
            changes.clear();
        }
        self.apply(&changes, now_us);
        Ok(changes)
    }

    pub fn refund(
        &mut self,
        layers: &[Layer<'static>],
        age_us: u64,
        now_us: u64,
    ) -> Changes<'static> {
        let mut changes = Changes::new();
        let Ok(plan) = self.plan(layers, now_us) else { return changes };
        plan.refund(0, layers, age_us, &mut changes);
        drop(plan);
        self.apply(&changes, now_us);
        changes
    }

    /// What `change` makes of each lease limit, by the limit's name.
    fn change_leases(
        &self,
        now_us: u64,
        change: impl Fn(&redis_limiter_core::lease::View) -> Option<redis_limiter_core::lease::Delta>,
    ) -> Vec<Change<'_>> {
        let live = self.subject.iter().flat_map(|subject| subject.live(now_us));
        live.filter_map(|(identity, found)| {
            let (Which::Lease, Found::State(state @ State::Lease(_))) = (identity.which, found)
            else {
                return None;
            };
            let View::Lease(view) = View::leases(Some(state), now_us) else { return None };
            change(&view).map(|delta| (identity, Delta::Lease(delta)))
        })
        .collect()
    }

    pub fn release(&self, id: &[u8], now_us: u64) -> Vec<Change<'_>> {
        self.change_leases(now_us, |view| view.release([id]).1.or_else(|| view.settle()))
    }

    pub fn renew(&self, id: &[u8], now_us: u64) -> Vec<Change<'_>> {
        self.change_leases(now_us, |view| view.renew(id, 5_000).1.or_else(|| view.settle()))
    }
}
