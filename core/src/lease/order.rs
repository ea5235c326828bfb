//! Leases in the order in which they end, in blocks that know their sum of slots.
//!
//! ```text
//!  blocks   [ 3 s  7 s  9 s ]  [ 9 s  12 s ]  [ 15 s  20 s  31 s ]     ends, ties by id
//!  slots          6                 2                  5              one sum a block
//! ```
//!
//! "When will at most 4 slots be held?" skips whole blocks by their sums and walks through one:
//! for 65,536 leases some 256 to 1,024 additions over adjacent memory and one block, instead of
//! 65,536 entries. Inserting and removing move at most one block's entries. Two neighbours always
//! hold more than half a block together, so the number of blocks stays in proportion.

use std::sync::Arc;

/// The most entries in a block. Small in unit tests, so that they split and join all the time.
const BLOCK: usize = if cfg!(test) { 8 } else { 256 };

/// Microseconds and id: what leases are sorted by.
type Key<'a> = (u64, &'a [u8]);

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    /// Shared with the index by id, which so does not store it again.
    pub id: Arc<[u8]>,
    pub slots: u64,
    /// From this instant on the lease is over.
    pub end_us: u64,
}

impl Lease {
    pub fn key(&self) -> Key<'_> {
        (self.end_us, &self.id)
    }
}

#[derive(Clone, Debug, Default)]
struct Block {
    /// Sorted by key.
    leases: Vec<Lease>,
    /// Their sum.
    slots: u64,
}

impl Block {
    fn ends_before(&self, key: Key) -> bool {
        self.leases.last().is_some_and(|last| last.key() < key)
    }

    fn position(&self, key: Key) -> usize {
        self.leases.partition_point(|lease| lease.key() < key)
    }

    /// Gives memory back when most of it is unused.
    fn shrink(&mut self) {
        if self.leases.capacity() > 4 * self.leases.len().max(4) {
            self.leases.shrink_to(2 * self.leases.len());
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        let leases = self.leases.split_off(at);
        let slots = sum(&leases);
        self.slots -= slots;
        Self { leases, slots }
    }
}

fn sum(leases: &[Lease]) -> u64 {
    leases.iter().map(|lease| lease.slots).sum()
}

/// The leases that are over at some instant: all before a place in the order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    /// The blocks that are over as a whole …
    blocks: usize,
    /// … and the leases of the next block that are.
    leases: usize,
    /// How many leases are over in all.
    pub count: usize,
    /// Their slots.
    pub slots: u64,
}

/// See the head of this file. No block is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    blocks: Vec<Block>,
    count: usize,
    slots: u64,
}

impl Order {
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The sum of all slots.
    pub const fn slots(&self) -> u64 {
        self.slots
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.blocks.iter().flat_map(|block| &block.leases)
    }

    pub fn last(&self) -> Option<&Lease> {
        self.blocks.last()?.leases.last()
    }

    pub fn get(&self, key: Key) -> Option<&Lease> {
        let block = self.blocks.get(self.block_of(key))?;
        block.leases.get(block.position(key)).filter(|lease| lease.key() == key)
    }

    /// The block in which `key` is or belongs; one past the last when it is greater than all.
    fn block_of(&self, key: Key) -> usize {
        self.blocks.partition_point(|block| block.ends_before(key))
    }

    /// Adds a lease whose key is not there yet.
    pub fn insert(&mut self, lease: Lease) {
        self.count += 1;
        self.slots += lease.slots;
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let last = self.blocks.len() - 1;
        let mut at = self.block_of(lease.key()).min(last);
        let mut position = self.blocks[at].position(lease.key());
        if self.blocks[at].leases.len() >= BLOCK {
            // Mostly every lease ends later than all before it: those blocks stay full.
            let cut = if at == last && position >= BLOCK { position } else { BLOCK / 2 };
            let tail = self.blocks[at].split_off(cut);
            self.blocks.insert(at + 1, tail);
            if position >= cut {
                (at, position) = (at + 1, position - cut);
            }
        }
        let block = &mut self.blocks[at];
        block.slots += lease.slots;
        block.leases.insert(position, lease);
    }

    pub fn remove(&mut self, key: Key) -> Option<Lease> {
        let at = self.block_of(key);
        let block = self.blocks.get_mut(at)?;
        let position = block.position(key);
        block.leases.get(position).filter(|lease| lease.key() == key)?;
        let lease = block.leases.remove(position);
        block.slots -= lease.slots;
        block.shrink();
        self.count -= 1;
        self.slots -= lease.slots;
        if block.leases.is_empty() {
            self.blocks.remove(at);
        }
        self.join(at);
        if let Some(before) = at.checked_sub(1) {
            self.join(before);
        }
        Some(lease)
    }

    /// Makes one block of the block `at` and the next if they fill at most half of it.
    fn join(&mut self, at: usize) {
        let len = |at: usize| self.blocks.get(at).map(|block| block.leases.len());
        let (Some(this), Some(next)) = (len(at), len(at + 1)) else { return };
        if this + next <= BLOCK / 2 {
            let mut next = self.blocks.remove(at + 1);
            self.blocks[at].slots += next.slots;
            self.blocks[at].leases.append(&mut next.leases);
        }
    }

    /// What is over at `at_us`.
    pub fn ended(&self, at_us: u64) -> Ended {
        let mut ended = Ended::default();
        for block in &self.blocks {
            if block.leases.last().is_some_and(|last| last.end_us > at_us) {
                let over = block.leases.partition_point(|lease| lease.end_us <= at_us);
                ended.leases = over;
                ended.count += over;
                ended.slots += sum(&block.leases[..over]);
                break;
            }
            ended.blocks += 1;
            ended.count += block.leases.len();
            ended.slots += block.slots;
        }
        ended
    }

    /// The first lease that is not over.
    pub fn first_after(&self, ended: &Ended) -> Option<&Lease> {
        self.blocks.get(ended.blocks)?.leases.get(ended.leases)
    }

    /// The first instant by which leases with at least `slots` slots (at least 1) have ended,
    /// counted from what is over already. `None` when there are not as many.
    pub fn end_of(&self, ended: &Ended, slots: u64) -> Option<u64> {
        // The leases that are over in the first block count as missing slots.
        let first = self.blocks.get(ended.blocks)?;
        let mut missing = slots.checked_add(sum(&first.leases[..ended.leases]))?;
        for block in &self.blocks[ended.blocks..] {
            if block.slots < missing {
                missing -= block.slots;
                continue;
            }
            for lease in &block.leases {
                if lease.slots >= missing {
                    return Some(lease.end_us);
                }
                missing -= lease.slots;
            }
        }
        None
    }

    /// Removes what is over at `at_us` and hands it to `gone`.
    pub fn prune(&mut self, at_us: u64, mut gone: impl FnMut(Lease)) {
        let ended = self.ended(at_us);
        if ended.count == 0 {
            return;
        }
        self.count -= ended.count;
        self.slots -= ended.slots;
        self.blocks.drain(..ended.blocks).flat_map(|block| block.leases).for_each(&mut gone);
        if let Some(first) = self.blocks.first_mut() {
            first.slots -= sum(&first.leases[..ended.leases]);
            first.leases.drain(..ended.leases).for_each(gone);
            first.shrink();
        }
        self.join(0);
    }

    /// Gives memory of many blocks back.
    pub fn shrink(&mut self) {
        if self.blocks.capacity() > 4 * self.blocks.len().max(4) {
            self.blocks.shrink_to(2 * self.blocks.len());
        }
    }

    /// Moves every end back by `by_us`, which must be less than the first end. Linear.
    pub fn move_back(&mut self, by_us: u64) {
        for lease in self.blocks.iter_mut().flat_map(|block| &mut block.leases) {
            lease.end_us -= by_us;
        }
    }

    /// Bytes of the blocks, without the ids.
    pub fn heap_bytes(&self) -> usize {
        let leases: usize = self.blocks.iter().map(|block| block.leases.capacity()).sum();
        self.blocks.capacity() * size_of::<Block>() + leases * size_of::<Lease>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert { id: u8, slots: u64, end_us: u64 },
        Remove { nth: prop::sample::Index },
        Prune { at_us: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (any::<u8>(), 1..5u64, 1..60u64)
                .prop_map(|(id, slots, end_us)| Step::Insert { id, slots, end_us }),
            5 => any::<prop::sample::Index>().prop_map(|nth| Step::Remove { nth }),
            1 => (0..70u64).prop_map(|at_us| Step::Prune { at_us }),
        ]
    }

    fn check(order: &Order, naive: &[Lease]) {
        assert!(order.iter().eq(naive));
        assert_eq!(order.count(), naive.len());
        assert_eq!(order.slots(), sum(naive));
        assert_eq!(order.last(), naive.last());
        for block in &order.blocks {
            assert!((1..=BLOCK).contains(&block.leases.len()));
            assert_eq!(block.slots, sum(&block.leases));
        }
        for two in order.blocks.windows(2) {
            assert!(two[0].leases.len() + two[1].leases.len() > BLOCK / 2);
        }
        for at_us in [0, 20, 40, 60] {
            let (over, live) = naive.split_at(naive.partition_point(|l| l.end_us <= at_us));
            let ended = order.ended(at_us);
            assert_eq!((ended.count, ended.slots), (over.len(), sum(over)));
            assert_eq!(order.first_after(&ended), live.first());
            for slots in
                [1, 2, 7, sum(live), sum(live) + 1, u64::MAX].into_iter().filter(|n| *n > 0)
            {
                let first = (1..=live.len()).find(|&n| sum(&live[..n]) >= slots);
                assert_eq!(order.end_of(&ended, slots), first.map(|n| live[n - 1].end_us));
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec(step(), 1..200)) {
            let (mut order, mut naive) = (Order::default(), Vec::<Lease>::new());
            for step in steps {
                match step {
                    Step::Insert { id, slots, end_us } => {
                        let lease = Lease { id: [id].into(), slots, end_us };
                        prop_assert_eq!(
                            order.get(lease.key()),
                            naive.iter().find(|other| other.key() == lease.key())
                        );
                        if order.get(lease.key()).is_none() {
                            order.insert(lease.clone());
                            naive.push(lease);
                            naive.sort_by(|a, b| a.key().cmp(&b.key()));
                        }
                    }
                    Step::Remove { nth } if !naive.is_empty() => {
                        let lease = naive.remove(nth.index(naive.len()));
                        prop_assert_eq!(order.remove(lease.key()), Some(lease.clone()));
                        prop_assert_eq!(order.remove(lease.key()), None);
                    }
                    Step::Remove { .. } => {}
                    Step::Prune { at_us } => {
                        let live = naive.split_off(naive.partition_point(|l| l.end_us <= at_us));
                        let mut gone = Vec::new();
                        order.prune(at_us, |lease| gone.push(lease));
                        prop_assert_eq!(gone, naive);
                        naive = live;
                    }
                }
                check(&order, &naive);
            }
        }
    }

    #[test]
    fn ascending_ends_fill_their_blocks() {
        let mut order = Order::default();
        for end_us in 0..10 * BLOCK as u64 {
            order.insert(Lease { id: [1].into(), slots: 1, end_us });
        }
        assert_eq!(order.blocks.len(), 10);
    }
}
