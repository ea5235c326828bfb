//! The stored leases of one limit.

use super::order::{Lease, Order};
use super::{MAX_ID_BYTES, MAX_LEASES, MAX_TTL_US};
use crate::units::{MAX_AMOUNT, MAX_INSTANT_US};
use crate::wire::{Invalid, Sink, Source};
use std::collections::HashMap;
use std::sync::Arc;

/// The leases of one limit. Never empty when stored; may hold leases that are over.
///
/// Two sets are equal when they hold the same leases, whatever their history.
#[derive(Clone, Debug, Default)]
pub struct LeaseSet {
    /// The instant of the last acquire or renew. Every lease ends after it, at most
    /// [`MAX_TTL_US`] later.
    pub(super) newest_us: u64,
    pub(super) order: Order,
    /// When each id's lease ends: with the id, its place in `order`. Hashed with random keys,
    /// since ids may come from clients.
    ends: HashMap<Arc<[u8]>, u64>,
    id_bytes: usize,
}

impl PartialEq for LeaseSet {
    fn eq(&self, other: &Self) -> bool {
        self.newest_us == other.newest_us
            && self.order.count() == other.order.count()
            && self.order.iter().eq(other.order.iter())
    }
}

impl LeaseSet {
    /// From this instant on every lease is over.
    #[must_use]
    pub fn end_us(&self) -> u64 {
        self.order.last().map_or(0, |last| last.end_us)
    }

    /// How many leases are stored, also those that are over: what freeing them costs.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.order.count()
    }

    /// Whether nothing is stored; such a set is never kept.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.order.count() == 0
    }

    /// The stored lease of `id`, also when it is over.
    pub(super) fn get(&self, id: &[u8]) -> Option<&Lease> {
        self.order.get((*self.ends.get(id)?, id))
    }

    /// Adds a lease or changes the one that the id has.
    pub(super) fn put(&mut self, lease: Lease) {
        match self.ends.get_mut(&lease.id) {
            Some(end_us) => {
                self.order.remove((*end_us, &lease.id));
                *end_us = lease.end_us;
            }
            None => {
                self.id_bytes += lease.id.len();
                self.ends.insert(Arc::clone(&lease.id), lease.end_us);
            }
        }
        self.order.insert(lease);
    }

    pub(super) fn remove(&mut self, id: &[u8]) {
        if let Some(end_us) = self.ends.remove(id) {
            self.order.remove((end_us, id));
            self.id_bytes -= id.len();
        }
    }

    /// The clock rule: if the newest instant lies after `now_us`, everything moves back by the
    /// difference. Then drops what is over.
    pub(super) fn settle_and_prune(&mut self, now_us: u64) {
        if let Some(by_us) = self.newest_us.checked_sub(now_us).filter(|&by_us| by_us > 0) {
            self.newest_us = now_us;
            self.order.move_back(by_us);
            self.ends.values_mut().for_each(|end_us| *end_us -= by_us);
        }
        let Self { order, ends, id_bytes, .. } = self;
        order.prune(now_us, |lease| {
            ends.remove(&lease.id);
            *id_bytes -= lease.id.len();
        });
    }

    /// Gives memory back after many leases have gone.
    pub(super) fn shrink(&mut self) {
        let wanted = (self.ends.len() * 2).max(16);
        if self.ends.capacity() > 4 * wanted {
            self.ends.shrink_to(wanted);
        }
        self.order.shrink();
    }

    /// Bytes on the heap, about.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        // A hash table keeps one control byte an entry and at least an eighth of its places free.
        let places = self.ends.capacity() + self.ends.capacity() / 7;
        let index = places * (size_of::<(Arc<[u8]>, u64)>() + 1);
        let counts = 2 * size_of::<usize>(); // before the bytes of an Arc
        self.order.heap_bytes() + index + self.ends.len() * counts + self.id_bytes
    }

    /// Appends the encoding: the newest instant, the number of leases, then by end and id each one's
    /// distance to the end before it (of the first: to the newest instant), slots, id.
    pub fn encode(&self, out: &mut impl Sink) {
        out.put_int(self.newest_us);
        out.put_int(self.order.count() as u64);
        let mut before_us = self.newest_us;
        for lease in self.order.iter() {
            out.put_int(lease.end_us - before_us);
            out.put_int(lease.slots);
            out.put_bytes(&lease.id);
            before_us = lease.end_us;
        }
    }

    /// Reads what [`LeaseSet::encode`] wrote.
    ///
    /// # Errors
    /// [`Invalid`] for anything that no call could have stored.
    pub fn decode(source: &mut Source) -> Result<Self, Invalid> {
        let newest_us = source.int(MAX_INSTANT_US)?;
        let mut set = Self { newest_us, ..Self::default() };
        let count = source.int(MAX_LEASES as u64)?;
        let mut before: (u64, Arc<[u8]>) = (newest_us, Arc::default());
        for n in 0..count {
            let end_us = before.0 + source.int(newest_us + MAX_TTL_US - before.0)?;
            let slots = source.int(MAX_AMOUNT - set.order.slots())?;
            let id: Arc<[u8]> = source.bytes(1..=MAX_ID_BYTES)?.into();
            let key = (end_us, id);
            let in_order = if n == 0 { end_us > newest_us } else { key > before };
            if slots == 0 || !in_order || set.ends.contains_key(&key.1) {
                return Err(Invalid);
            }
            set.put(Lease { id: Arc::clone(&key.1), slots, end_us });
            before = key;
        }
        if set.is_empty() { Err(Invalid) } else { Ok(set) }
    }
}
