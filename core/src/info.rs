//! What is stored of a key, for a person or a support tool.

use crate::bucket::Bucket;
use crate::lease;
use crate::limit::{Identity, Which};
use crate::quota::Quota;
use crate::state::State;
use crate::subject::{Found, Subject};
use crate::window::{self, WindowMode, fixed, log, sliding};

/// One limit that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'s> {
    /// What identifies it.
    pub identity: Identity<'s>,
    /// What is used of it.
    pub usage: EntryUsage,
}

/// What is used of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryUsage {
    /// Of a bucket, a window or a quota.
    Units {
        /// Whole units in use, rounded up; of a bucket at its last charge.
        used: u64,
        /// Unix ms of the last charge (bucket), the oldest unit still counted (window) or the
        /// period's start (quota), rounded down.
        since_ms: u64,
        /// Unix ms from which on nothing is used, rounded up.
        until_ms: u64,
    },
    /// Of leases.
    Leases(lease::Summary),
}

/// Every limit of `subject` that has not ended at `now_us`, in the order they were first charged.
pub fn entries(subject: &Subject, now_us: u64) -> impl Iterator<Item = Entry<'_>> {
    subject.live(now_us).filter_map(move |(identity, found)| {
        let usage = usage(identity.which, found, now_us)?;
        Some(Entry { identity, usage })
    })
}

fn usage(which: Which, found: Found, now_us: u64) -> Option<EntryUsage> {
    match found {
        Found::Bucket(bucket) => Some(of_bucket(bucket, now_us)),
        Found::State(State::Bucket(bucket)) => Some(of_bucket(Bucket::from(*bucket), now_us)),
        Found::State(State::Quota(quota)) => of_quota(quota, now_us),
        Found::State(State::Lease(leases)) => {
            lease::View::new(Some(leases), now_us).summary().map(EntryUsage::Leases)
        }
        Found::State(State::Fixed(window)) => {
            of_window(fixed::View::new(Some(window), length_ms(which), now_us).summary())
        }
        Found::State(State::Sliding(window)) => {
            of_window(sliding::View::new(Some(window), length_ms(which), now_us).summary())
        }
        Found::State(State::Log(log)) => {
            of_window(log::View::new(Some(log), length_ms(which), now_us).summary())
        }
    }
}

fn length_ms(which: Which) -> u64 {
    which.length_ms().unwrap_or(0)
}

fn of_bucket(bucket: Bucket, now_us: u64) -> EntryUsage {
    let bucket = bucket.moved_back(now_us).unwrap_or(bucket);
    EntryUsage::Units {
        used: bucket.used_at_last_charge(),
        since_ms: bucket.at_us() / 1000,
        until_ms: bucket.end_ms(),
    }
}

fn of_quota(quota: &Quota, now_us: u64) -> Option<EntryUsage> {
    (!quota.has_ended(now_us)).then(|| EntryUsage::Units {
        used: quota.used(),
        since_ms: quota.start_ms(),
        until_ms: quota.end_ms(),
    })
}

fn of_window(summary: Option<window::Summary>) -> Option<EntryUsage> {
    let window::Summary { used, since_ms, until_ms } = summary?;
    Some(EntryUsage::Units { used, since_ms, until_ms })
}

impl Which {
    /// The lower-case word for the kind.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Window { .. } => "window",
            Self::Quota(_) => "quota",
            Self::Lease => "lease",
        }
    }

    /// How a window counts.
    #[must_use]
    pub const fn mode(self) -> Option<WindowMode> {
        match self {
            Self::Window { mode, .. } => Some(mode),
            _ => None,
        }
    }

    /// A window's length in milliseconds.
    #[must_use]
    pub const fn length_ms(self) -> Option<u64> {
        match self {
            Self::Window { length_ms, .. } => Some(length_ms),
            _ => None,
        }
    }
}
