//! Two small hash tables made for loading a vocabulary fast: text → id, and pair of ids → merge.
//!
//! Open addressing with linear probing, filled once, never deleted from. Hashes are seeded per table, so a file cannot
//! choose texts that collide.

use std::hash::{BuildHasher, RandomState};

use crate::gguf::StrArray;

/// Multiplies to 128 bits and folds the halves: every input bit reaches every output bit.
fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn random_seed() -> u64 {
    RandomState::new().hash_one(0u64) | 1
}

fn n_slots_for(n_entries: usize) -> usize {
    (n_entries + n_entries / 2).next_power_of_two().max(16)
}

fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = seed ^ bytes.len() as u64;
    let (chunks, tail) = bytes.as_chunks::<8>();
    for chunk in chunks {
        hash = fold_multiply(hash ^ u64::from_le_bytes(*chunk), MIX ^ seed);
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    fold_multiply(hash ^ u64::from_le_bytes(last), MIX ^ seed)
}

/// Text → id over the strings of a [`StrArray`], which every call is given.
#[derive(Debug)]
pub(super) struct TextIndex {
    /// `0` is empty; otherwise the upper half of the hash, and id + 1.
    slots: Vec<u64>,
    seed: u64,
}

/// What [`TextIndex::insert`] says when the text is there already: the id that has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken(pub(super) u32);

impl TextIndex {
    /// An empty index for up to `n_entries` strings.
    pub(super) fn with_capacity(n_entries: usize) -> Self {
        Self { slots: vec![0; n_slots_for(n_entries)], seed: random_seed() }
    }

    /// Adds string `id` of `table`.
    pub(super) fn insert(&mut self, table: &StrArray, id: u32) -> Result<(), Taken> {
        let text = table.get(id as usize).unwrap_or_default();
        match self.probe(table, text) {
            Ok(found) => Err(Taken(found)),
            Err((slot, tag)) => {
                self.slots[slot] = tag | (u64::from(id) + 1);
                Ok(())
            }
        }
    }

    /// The id whose string is `text`.
    pub(super) fn get(&self, table: &StrArray, text: &[u8]) -> Option<u32> {
        self.probe(table, text).ok()
    }

    /// The id of `text`, or the empty slot and the tag with which to add it.
    fn probe(&self, table: &StrArray, text: &[u8]) -> Result<u32, (usize, u64)> {
        let hash = hash_bytes(self.seed, text);
        let tag = hash & 0xffff_ffff_0000_0000;
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return Err((slot, tag));
            }
            if entry & 0xffff_ffff_0000_0000 == tag {
                let id = entry as u32 - 1;
                if table.get(id as usize) == Some(text) {
                    return Ok(id);
                }
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// A merge: how urgent it is (lower first) and the id it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Merge {
    pub(super) rank: u32,
    pub(super) merged: u32,
}

/// Rank of an empty slot, and of a pair that does not merge.
pub(super) const NO_RANK: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct MergeSlot {
    pair: u64,
    merge: Merge,
}

/// Pair of ids → merge.
#[derive(Debug)]
pub(super) struct MergeTable {
    slots: Vec<MergeSlot>,
    seed: u64,
}

impl MergeTable {
    /// An empty table for up to `n_entries` merges.
    pub(super) fn with_capacity(n_entries: usize) -> Self {
        let empty = MergeSlot { pair: 0, merge: Merge { rank: NO_RANK, merged: 0 } };
        Self { slots: vec![empty; n_slots_for(n_entries)], seed: random_seed() }
    }

    /// Adds a merge, unless the pair has one already: the first is the more urgent.
    pub(super) fn insert(&mut self, left: u32, right: u32, merge: Merge) {
        let pair = pair_key(left, right);
        let slot = self.slot_of(pair);
        if self.slots[slot].merge.rank == NO_RANK {
            self.slots[slot] = MergeSlot { pair, merge };
        }
    }

    /// The merge of `left` and `right`; its rank is [`NO_RANK`] when there is none.
    pub(super) fn get(&self, left: u32, right: u32) -> Merge {
        self.slots[self.slot_of(pair_key(left, right))].merge
    }

    /// The slot that holds `pair`, or the empty one where it belongs.
    fn slot_of(&self, pair: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = fold_multiply(pair ^ self.seed, 0x9e37_79b9_7f4a_7c15) as usize & mask;
        while self.slots[slot].merge.rank != NO_RANK && self.slots[slot].pair != pair {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

fn pair_key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_inserted_text_is_found_again_and_no_other() {
        let texts: Vec<String> = (0..5000).map(|i| format!("token {i}")).collect();
        let table = StrArray::from_iter(&texts);
        let mut index = TextIndex::with_capacity(table.len());
        for id in 0..5000 {
            assert_eq!(index.insert(&table, id), Ok(()));
        }
        assert_eq!(index.insert(&table, 7), Err(Taken(7)));
        for (id, text) in texts.iter().enumerate() {
            assert_eq!(index.get(&table, text.as_bytes()), Some(id as u32));
        }
        assert_eq!(index.get(&table, b"token 5000"), None);
        assert_eq!(index.get(&table, b""), None);
    }

    #[test]
    fn the_first_merge_of_a_pair_wins() {
        let mut merges = MergeTable::with_capacity(2);
        merges.insert(1, 2, Merge { rank: 3, merged: 10 });
        merges.insert(1, 2, Merge { rank: 4, merged: 11 });
        assert_eq!(merges.get(1, 2), Merge { rank: 3, merged: 10 });
        assert_eq!(merges.get(2, 1).rank, NO_RANK);
    }
}
