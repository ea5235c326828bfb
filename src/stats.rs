//! What INFO counts: plain counters since the server started. Relaxed order does: each is a number
//! of its own.

use crate::server::{Info, InfoSource};
use redis_limiter_core::law::Outcome;
use std::sync::atomic::{AtomicU64, Ordering};

/// One number.
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts one more. Commands run one at a time, so load and store do, and are cheaper than an
    /// atomic addition; a command run from a module's thread holds the server's lock.
    pub fn count(&self) {
        self.0.store(self.get().wrapping_add(1), Ordering::Relaxed);
    }

    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Calls that were admitted and refused.
pub struct Verdicts {
    /// Calls that were admitted.
    pub admitted: Counter,
    /// Calls that were refused.
    pub refused: Counter,
}

impl Verdicts {
    const fn new() -> Self {
        Self { admitted: Counter::new(), refused: Counter::new() }
    }

    /// Counts one call.
    pub fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Admit { .. } => self.admitted.count(),
            Outcome::Refuse { .. } => self.refused.count(),
        }
    }
}

/// All counters.
pub struct Stats {
    /// Calls of any command of the module, RL.E included.
    pub calls: Counter,
    /// Calls that answered an error of the module.
    pub errors: Counter,
    /// Keys that a call created.
    pub keys_created: Counter,
    /// Effects applied from a primary, an AOF or a slot migration.
    pub effects_applied: Counter,
    /// RL.BUCKET.
    pub bucket: Verdicts,
    /// RL.WINDOW.
    pub window: Verdicts,
    /// RL.QUOTA.
    pub quota: Verdicts,
    /// RL.ACQUIRE.
    pub lease: Verdicts,
    /// RL.TAKE and RL.MTAKE, each call counted once.
    pub layered: Verdicts,
}

/// The counters of this server.
pub static STATS: Stats = Stats {
    calls: Counter::new(),
    errors: Counter::new(),
    keys_created: Counter::new(),
    effects_applied: Counter::new(),
    bucket: Verdicts::new(),
    window: Verdicts::new(),
    quota: Verdicts::new(),
    lease: Verdicts::new(),
    layered: Verdicts::new(),
};

impl InfoSource for Stats {
    fn fill(info: &mut Info) {
        info.section(c"stats");
        for (name, counter) in [
            (c"calls", &STATS.calls),
            (c"errors", &STATS.errors),
            (c"keys_created", &STATS.keys_created),
            (c"effects_applied", &STATS.effects_applied),
            (c"bucket_admitted", &STATS.bucket.admitted),
            (c"bucket_refused", &STATS.bucket.refused),
            (c"window_admitted", &STATS.window.admitted),
            (c"window_refused", &STATS.window.refused),
            (c"quota_admitted", &STATS.quota.admitted),
            (c"quota_refused", &STATS.quota.refused),
            (c"lease_admitted", &STATS.lease.admitted),
            (c"lease_refused", &STATS.lease.refused),
            (c"layered_admitted", &STATS.layered.admitted),
            (c"layered_refused", &STATS.layered.refused),
        ] {
            info.field(name, counter.get());
        }
    }
}
