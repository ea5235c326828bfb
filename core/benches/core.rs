//! What the algorithms cost, in nanoseconds: whole calls as a server makes them, from the stored
//! state through the decision to the changed state, and the parts beside them.
#![allow(missing_docs, reason = "a benchmark")]
#![allow(clippy::expect_used, clippy::panic, reason = "it may fail")]

use criterion::{Criterion, criterion_group, criterion_main};
use redis_limiter_core::calendar::{Anchor, Calendar, Period, Zone};
use redis_limiter_core::codec::{Decoded, decode, encode_effect};
use redis_limiter_core::law::Ask;
use redis_limiter_core::layers::{Changes, Plan};
use redis_limiter_core::limit::{Layer, Params};
use redis_limiter_core::subject::Subject;
use redis_limiter_core::units::{MAX_AMOUNT, Rate};
use redis_limiter_core::window::WindowMode;
use redis_limiter_core::wire::ShortBytes;
use std::hint::black_box;

/// A whole millisecond: log entries then end exactly as others are added.
const START_US: u64 = 1_700_000_000_123_000;

struct Key {
    subject: Option<Subject>,
    calendar: Calendar,
    now_us: u64,
}

impl Key {
    fn new() -> Self {
        Self { subject: None, calendar: Calendar::new(), now_us: START_US }
    }

    /// Whether all of `layers` admitted, and then were charged.
    fn call(&mut self, layers: &[Layer]) -> bool {
        let subject = self.subject.as_ref();
        let plan = Plan::check(subject, layers, self.now_us, &mut self.calendar).expect("no fault");
        if !plan.admits() {
            return false;
        }
        let mut changes = Changes::new();
        plan.charge(0, layers, &mut changes);
        drop(plan);
        Subject::apply(&mut self.subject, &changes, self.now_us).expect("it fits");
        true
    }
}

fn layer(params: Params) -> Layer {
    Layer { params, name: None, ask: Ask::whole(1) }
}

fn bucket(rate: &str, burst: u64) -> Layer<'static> {
    let rate = Rate::parse(rate.as_bytes()).expect("a rate");
    layer(Params::Bucket { rate, burst })
}

const fn window_of(mode: WindowMode, length_ms: u64, limit: u64) -> Params<'static> {
    Params::Window { mode, length_ms, limit }
}

fn quota(zone: &[u8]) -> Layer<'static> {
    let zone: Zone = Calendar::new().zone(zone).expect("a zone");
    let (period, anchor) = (Period::Month, Anchor::FIRST);
    layer(Params::Quota { period, zone, anchor, limit: MAX_AMOUNT })
}

fn lease(limit: u64, ttl_ms: u64, id: &[u8]) -> Layer<'_> {
    layer(Params::Lease { limit, ttl_ms, id: Some(id), nx: false })
}

fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("admitted");
    let sliding = || layer(window_of(WindowMode::Sliding, 60_000, MAX_AMOUNT));
    let fixed = || layer(window_of(WindowMode::Fixed, 60_000, MAX_AMOUNT));
    let four = vec![bucket("1000000", 1000), sliding(), quota(b"Europe/Berlin"), fixed()];
    for (name, layers) in [
        ("bucket", vec![bucket("1000000", 1000)]),
        ("bucket, slow", vec![bucket("9007199254740.99/366d", MAX_AMOUNT)]),
        ("window fixed", vec![fixed()]),
        ("window sliding", vec![sliding()]),
        ("quota month UTC", vec![quota(b"UTC")]),
        ("quota month Berlin", vec![quota(b"Europe/Berlin")]),
        ("four layers", four),
    ] {
        let mut key = Key::new();
        group.bench_function(name, |b| {
            b.iter(|| {
                key.now_us += 7;
                assert!(key.call(black_box(&layers)));
            });
        });
    }
    group.finish();

    let mut group = c.benchmark_group("refused");
    for (name, layer) in [
        ("bucket", bucket("1/h", 5)),
        ("window fixed", layer(window_of(WindowMode::Fixed, 86_400_000, 5))),
        ("window sliding", layer(window_of(WindowMode::Sliding, 86_400_000, 5))),
        ("window log", layer(window_of(WindowMode::Log, 86_400_000, 5))),
    ] {
        let (mut key, layers) = (Key::new(), [layer]);
        (0..5).for_each(|_| assert!(key.call(&layers)));
        group.bench_function(name, |b| {
            b.iter(|| {
                key.now_us += 1;
                assert!(!key.call(black_box(&layers)));
            });
        });
    }
}

fn logs(c: &mut Criterion) {
    let mut group = c.benchmark_group("log");
    for entries in [10, 1_000, 65_536] {
        // One entry every 2 ms, each of which ends as another is added.
        let layers = [layer(window_of(WindowMode::Log, entries * 2, entries))];
        let mut key = Key::new();
        let mut admit = || {
            key.now_us += 2_000;
            assert!(key.call(black_box(&layers)));
        };
        (0..entries).for_each(|_| admit());
        group.bench_function(format!("admitted, {entries} entries"), |b| b.iter(&mut admit));
        group.bench_function(format!("refused, {entries} entries"), |b| {
            b.iter(|| assert!(!key.call(black_box(&layers))));
        });
    }
}

fn leases(c: &mut Criterion) {
    let mut group = c.benchmark_group("leases");
    for held in [10, 65_536] {
        let (mut key, mut next) = (Key::new(), 0u64);
        let mut acquire = |key: &mut Key| {
            key.now_us += 1_000;
            next += 1;
            assert!(key.call(&[lease(held, held, &next.to_le_bytes())]));
        };
        (0..held).for_each(|_| acquire(&mut key));
        group.bench_function(format!("acquired as another ends, {held} held"), |b| {
            b.iter(|| acquire(&mut key));
        });
        group.bench_function(format!("refused, {held} held"), |b| {
            b.iter(|| assert!(!key.call(&[lease(held, 1, black_box(b"new"))])));
        });
        let id = next.to_le_bytes();
        group.bench_function(format!("renewed, {held} held"), |b| {
            b.iter(|| assert!(key.call(&[lease(held, held + 1, black_box(&id))])));
        });
    }
}

fn parts(c: &mut Criterion) {
    for text in ["50", "300/1m", "0.000001/1ms"] {
        c.bench_function(&format!("parse rate {text}"), |b| {
            b.iter(|| Rate::parse(black_box(text.as_bytes())));
        });
    }
    let layers = [bucket("5", 10)];
    let plan = Plan::check(None, &layers, START_US, &mut Calendar::new()).expect("no fault");
    let mut changes = Changes::new();
    plan.charge(0, &layers, &mut changes);
    let encode = || {
        let mut bytes = ShortBytes::new();
        encode_effect(START_US, START_US / 1000 + 2_000, black_box(&changes), &mut bytes);
        bytes
    };
    c.bench_function("encode a bucket's effect", |b| b.iter(encode));
    let bytes = encode();
    c.bench_function("decode a bucket's effect", |b| {
        b.iter(|| {
            let Ok(Decoded::Effect { changes, .. }) = decode(black_box(bytes.as_slice())) else {
                panic!("no effect")
            };
            changes
        });
    });
}

criterion_group!(benches, calls, logs, leases, parts);
criterion_main!(benches);
