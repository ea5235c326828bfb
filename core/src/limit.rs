//! What identifies a limit among those of one key, and what a call asks of it.

use crate::calendar::{Anchor, Period, Zone};
use crate::law::Ask;
use crate::units::{MAX_DURATION_MS, MIN_WINDOW_MS, Rate};
use crate::window::WindowMode;
use crate::wire::{Invalid, Sink, Source};

/// The most limits that one key holds.
pub const MAX_LIMITS: usize = 64;

/// The most layers of one call.
pub const MAX_LAYERS: usize = 32;

/// The longest name (`AS`) and lease id, in bytes; the shortest is 1.
pub const MAX_NAME: usize = 128;

/// Kind, mode, and length or period of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// A token bucket.
    Bucket,
    /// A window of `length_ms` milliseconds.
    Window {
        /// How it counts.
        mode: WindowMode,
        /// Its length, [`MIN_WINDOW_MS`] `..=` [`MAX_DURATION_MS`].
        length_ms: u64,
    },
    /// A calendar quota, whatever its zone and anchor.
    Quota(Period),
    /// Concurrency leases.
    Lease,
}

/// What two calls must agree in to share one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Kind, mode, and length or period.
    pub which: Which,
    /// The name given with `AS`, 1 to [`MAX_NAME`] bytes.
    pub name: Option<&'a [u8]>,
}

/// The first byte of an encoded identity: the kind, and whether a name follows.
mod tag {
    pub const BUCKET: u8 = 0;
    pub const SLIDING: u8 = 1;
    pub const FIXED: u8 = 2;
    pub const LOG: u8 = 3;
    pub const QUOTA: u8 = 4;
    pub const LEASE: u8 = 5;
    pub const KIND: u8 = 0x0f;
    pub const NAMED: u8 = 0x10;
    /// In a change only: the limit is forgotten, no delta follows.
    pub const FORGET: u8 = 0x20;
}

impl<'a> Identity<'a> {
    /// The unnamed bucket, the only limit of most keys.
    pub const BUCKET: Self = Self { which: Which::Bucket, name: None };

    /// The lease limit of this name.
    #[must_use]
    pub const fn lease(name: Option<&'a [u8]>) -> Self {
        Self { which: Which::Lease, name }
    }

    /// Appends the encoding; `forget` marks a change that only removes the limit.
    pub(crate) fn encode(&self, forget: bool, out: &mut impl Sink) {
        let kind = match self.which {
            Which::Bucket => tag::BUCKET,
            Which::Window { mode: WindowMode::Sliding, .. } => tag::SLIDING,
            Which::Window { mode: WindowMode::Fixed, .. } => tag::FIXED,
            Which::Window { mode: WindowMode::Log, .. } => tag::LOG,
            Which::Quota(_) => tag::QUOTA,
            Which::Lease => tag::LEASE,
        };
        let named = if self.name.is_some() { tag::NAMED } else { 0 };
        out.put_u8(kind | named | if forget { tag::FORGET } else { 0 });
        match self.which {
            Which::Window { length_ms, .. } => out.put_int(length_ms),
            Which::Quota(period) => out.put_u8(period.code()),
            Which::Bucket | Which::Lease => {}
        }
        if let Some(name) = self.name {
            out.put_bytes(name);
        }
    }

    /// Reads an identity, and whether its change only forgets the limit.
    pub(crate) fn decode(source: &mut Source<'a>) -> Result<(Self, bool), Invalid> {
        let byte = source.u8()?;
        if byte & !(tag::KIND | tag::NAMED | tag::FORGET) != 0 {
            return Err(Invalid);
        }
        let which = match byte & tag::KIND {
            tag::BUCKET => Which::Bucket,
            tag::SLIDING => window(WindowMode::Sliding, source)?,
            tag::FIXED => window(WindowMode::Fixed, source)?,
            tag::LOG => window(WindowMode::Log, source)?,
            tag::QUOTA => Which::Quota(Period::from_code(source.u8()?).ok_or(Invalid)?),
            tag::LEASE => Which::Lease,
            _ => return Err(Invalid),
        };
        let named = byte & tag::NAMED != 0;
        let name = if named { Some(source.bytes(1..=MAX_NAME)?) } else { None };
        Ok((Self { which, name }, byte & tag::FORGET != 0))
    }
}

fn window(mode: WindowMode, source: &mut Source) -> Result<Which, Invalid> {
    let length_ms = source.int(MAX_DURATION_MS)?;
    if length_ms < MIN_WINDOW_MS {
        return Err(Invalid);
    }
    Ok(Which::Window { mode, length_ms })
}

/// A limit as a call states it: its identity and its capacity.
#[derive(Clone, Debug)]
pub enum Params<'a> {
    /// `BUCKET rate burst`
    Bucket {
        /// How fast it refills.
        rate: Rate,
        /// What it holds at most.
        burst: u64,
    },
    /// `WINDOW window limit [mode]`
    Window {
        /// How it counts.
        mode: WindowMode,
        /// The window's length.
        length_ms: u64,
        /// Units per window.
        limit: u64,
    },
    /// `QUOTA period limit [TZ zone] [ANCHOR n]`
    Quota {
        /// The calendar period.
        period: Period,
        /// Whose midnight counts.
        zone: Zone,
        /// Where a week or month starts.
        anchor: Anchor,
        /// Units per period.
        limit: u64,
    },
    /// `LEASE limit ttl [ID id] [NX]`
    Lease {
        /// Slots held at once.
        limit: u64,
        /// When a lease ends if nobody renews it.
        ttl_ms: u64,
        /// The holder, 1 to [`MAX_NAME`] bytes; none: a new holder, who can only peek.
        id: Option<&'a [u8]>,
        /// Refuse an id that is held.
        nx: bool,
    },
}

/// One limit and what a call asks of it.
#[derive(Clone, Debug)]
pub struct Layer<'a> {
    /// The limit.
    pub params: Params<'a>,
    /// Its name.
    pub name: Option<&'a [u8]>,
    /// Cost (of a lease: slots), what to leave, how to charge.
    pub ask: Ask,
}

impl<'a> Layer<'a> {
    /// What identifies the limit.
    #[must_use]
    pub fn identity(&self) -> Identity<'a> {
        let which = match self.params {
            Params::Bucket { .. } => Which::Bucket,
            Params::Window { mode, length_ms, .. } => Which::Window { mode, length_ms },
            Params::Quota { period, .. } => Which::Quota(period),
            Params::Lease { .. } => Which::Lease,
        };
        Identity { which, name: self.name }
    }

    /// Its capacity: burst or limit.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        match self.params {
            Params::Bucket { burst: limit, .. }
            | Params::Window { limit, .. }
            | Params::Quota { limit, .. }
            | Params::Lease { limit, .. } => limit,
        }
    }
}
