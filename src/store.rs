//! A key and what it holds: opened, changed by decided changes, and sent to replicas and the AOF.
//!
//! The order is always the same: open, decide, store, expire, replicate, close, signal, notify. In a
//! notification other modules run, so nothing of the key is in use by then.

use crate::error::Error;
use crate::server::{Arg, Ctx, Key, Kind};
use crate::stats::STATS;
use redis_limiter_core::codec::encode_effect;
use redis_limiter_core::expiry;
use redis_limiter_core::redis_cell;
use redis_limiter_core::subject::{Change, Subject};
use redis_limiter_core::wire::ShortBytes;
use std::ffi::CStr;

/// The command that carries effects to replicas and the AOF. Its name is for ever.
pub const EFFECT_COMMAND: &CStr = c"RL.E";

/// An open key that is missing or ours, as of one instant.
pub struct Store<'k> {
    key: Key<'k, Subject>,
    now_us: u64,
}

impl<'k> Store<'k> {
    /// Opens a key that a call may charge.
    pub fn open(ctx: &'k mut Ctx<'_>, name: Arg<'k>, now_us: u64) -> Result<Self, Error> {
        Self::new(Key::open(ctx, name), now_us)
    }

    /// Opens the keys of a call on several.
    pub fn open_all(
        ctx: &'k mut Ctx<'_>,
        names: impl Iterator<Item = Arg<'k>> + Clone,
        now_us: u64,
    ) -> Result<impl Iterator<Item = Result<Self, Error>>, Error> {
        let keys = Key::open_all(ctx, names).ok_or(Error::SAME_KEY)?;
        Ok(keys.map(move |key| Self::new(key, now_us)))
    }

    fn new(key: Key<'k, Subject>, now_us: u64) -> Result<Self, Error> {
        match key.kind() {
            Kind::Foreign => Err(Error::WRONG_TYPE),
            Kind::Empty | Kind::Ours(_) => Ok(Self { key, now_us }),
        }
    }

    /// Opens a key for CL.THROTTLE. A string of redis-cell's passes too, and answers the instant that
    /// it holds (Unix ns); the first change takes its place.
    pub fn open_redis_cell(
        ctx: &'k mut Ctx<'_>,
        name: Arg<'k>,
        now_us: u64,
    ) -> Result<(Self, Option<u64>), Error> {
        let mut key = Key::open(ctx, name);
        let Kind::Foreign = key.kind() else { return Ok((Self { key, now_us }, None)) };
        let expire_ms = key.expire_ms().and_then(|at_ms| u64::try_from(at_ms).ok());
        let instant_ns = expire_ms
            .zip(key.string())
            .and_then(|(expire_ms, text)| redis_cell::stored_instant_ns(text, expire_ms))
            .ok_or(Error::WRONG_TYPE)?;
        Ok((Self { key, now_us }, Some(instant_ns)))
    }

    /// What the key holds, ended or not.
    #[inline]
    pub fn subject(&self) -> Option<&Subject> {
        match self.key.kind() {
            Kind::Ours(subject) => Some(subject),
            Kind::Empty | Kind::Foreign => None,
        }
    }

    /// Whether charges may be stored: the key has room for their limits, and the server for what
    /// makes a key, or lengthens a log or a set of leases (`grows`).
    pub fn check_room(&self, charges: &[Change], grows: bool) -> Result<(), Error> {
        let subject = self.subject();
        let identities = charges.iter().map(|(identity, _)| *identity);
        if subject.is_some_and(|subject| !subject.has_room(identities, self.now_us)) {
            return Err(Error::TOO_MANY_LIMITS);
        }
        if (self.is_empty() || grows) && self.key.is_out_of_memory() {
            return Err(Error::OUT_OF_MEMORY);
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        matches!(self.key.kind(), Kind::Empty)
    }

    /// Stores decided changes, corrects the expiry where it must, and sends the effect. Answers
    /// whether that took the last away, and so the key.
    pub fn apply(&mut self, changes: &[Change]) -> Result<bool, Error> {
        let was_empty = self.is_empty();
        let end_us = self.change(changes)?;
        let expire_ms = end_us.map_or(0, |end_us| self.expire(end_us));
        let mut blob = ShortBytes::new();
        encode_effect(self.now_us, expire_ms, changes, &mut blob);
        self.key.replicate(EFFECT_COMMAND, blob.as_slice());
        Ok(end_us.is_none() && !was_empty)
    }

    /// Stores changes; answers when the last limit ends, `None` when nothing is left and so the key
    /// is gone. What was decided always fits: if not, that is a bug.
    fn change(&mut self, changes: &[Change]) -> Result<Option<u64>, Error> {
        let now_us = self.now_us;
        let Some(subject) = self.key.value_mut() else { return self.create(changes) };
        let (end_us, applied) = subject.update(changes, now_us);
        if end_us.is_none() {
            self.key.delete();
        }
        applied.map(|()| end_us).map_err(|_| Error::INTERNAL)
    }

    /// The same for a key that holds nothing of ours yet.
    fn create(&mut self, changes: &[Change]) -> Result<Option<u64>, Error> {
        let mut slot = None;
        let applied = Subject::apply(&mut slot, changes, self.now_us);
        let end_us = slot.as_ref().map(Subject::end_us);
        if self.is_empty() && slot.is_some() {
            STATS.keys_created.count();
        }
        match slot {
            Some(subject) => self.key.set_value(Box::new(subject)),
            None => self.key.delete(),
        }
        applied.map(|()| end_us).map_err(|_| Error::INTERNAL)
    }

    /// Makes the key expire soon after `end_us`; answers when it does (Unix ms).
    fn expire(&mut self, end_us: u64) -> u64 {
        let stored_ms = self.key.expire_ms().and_then(|at_ms| u64::try_from(at_ms).ok());
        match expiry::correction_ms(end_us, stored_ms, self.now_us) {
            Some(expire_ms) => {
                self.key.set_expire_ms(expire_ms.cast_signed());
                expire_ms
            }
            None => stored_ms.unwrap_or(0),
        }
    }
}

/// Tells WATCH, client tracking and listeners that a key changed, and whether it is `gone`; after it
/// is closed.
pub fn announce(ctx: &mut Ctx<'_>, name: Arg<'_>, event: &'static CStr, gone: bool) {
    ctx.signal_modified(name);
    ctx.notify(event, name);
    if gone {
        ctx.notify_deleted(name);
    }
}
