//! Byte-pair merging: a word's bytes become ids by joining neighbours, most urgent pair first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::table::{Merge, MergeTable, NO_RANK};

/// Id of a byte that the vocabulary cannot spell. It never merges and is left out of the result.
pub(super) const NO_ID: u32 = u32::MAX;

/// Position before the first and after the last symbol.
const NONE: u32 = u32::MAX;

/// The merges of a vocabulary and the id of each single byte.
#[derive(Debug)]
pub(super) struct Bpe {
    pub(super) merges: MergeTable,
    /// Id per byte, [`NO_ID`] where the vocabulary has none.
    pub(super) byte_ids: [u32; 256],
}

#[derive(Clone, Copy, Debug)]
struct Symbol {
    id: u32,
    prev: u32,
    next: u32,
    /// Merge with the symbol at `next`; its rank is [`NO_RANK`] for none and for a symbol that was joined to another.
    merge: Merge,
}

/// Buffers that are reused from word to word.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    symbols: Vec<Symbol>,
    /// Rank and position of pairs that may merge, packed so that the smallest is the next to merge.
    queue: BinaryHeap<Reverse<u64>>,
}

impl Bpe {
    /// Appends the ids of `word`. Equal ranks merge from the left. O(n log n) in the length of the word; `word` is
    /// shorter than `u32::MAX` bytes.
    pub(super) fn encode(&self, word: &[u8], scratch: &mut Scratch, ids: &mut Vec<u32>) {
        if let [byte] = word {
            ids.extend(Some(self.byte_ids[*byte as usize]).filter(|&id| id != NO_ID));
            return;
        }
        self.start(word, scratch);
        while let Some(Reverse(entry)) = scratch.queue.pop() {
            let (rank, at) = ((entry >> 32) as u32, entry as u32);
            if scratch.symbols[at as usize].merge.rank == rank {
                self.join(at, scratch);
            }
        }
        let mut at = if word.is_empty() { NONE } else { 0 };
        while at != NONE {
            let symbol = scratch.symbols[at as usize];
            if symbol.id != NO_ID {
                ids.push(symbol.id);
            }
            at = symbol.next;
        }
    }

    fn start(&self, word: &[u8], scratch: &mut Scratch) {
        let Scratch { symbols, queue } = scratch;
        symbols.clear();
        let mut entries = std::mem::take(queue).into_vec();
        entries.clear();
        for (at, &byte) in word.iter().enumerate() {
            let id = self.byte_ids[byte as usize];
            let merge = match word.get(at + 1) {
                Some(&right) => self.merges.get(id, self.byte_ids[right as usize]),
                None => Merge { rank: NO_RANK, merged: NO_ID },
            };
            let next = if at + 1 < word.len() { at as u32 + 1 } else { NONE };
            symbols.push(Symbol { id, prev: (at as u32).wrapping_sub(1), next, merge });
            if merge.rank != NO_RANK {
                entries.push(queue_entry(merge.rank, at as u32));
            }
        }
        *queue = BinaryHeap::from(entries);
    }

    /// Joins the symbol at `at` with the next one and looks up the two pairs that this makes.
    fn join(&self, at: u32, scratch: &mut Scratch) {
        let symbols = &mut scratch.symbols;
        let Symbol { prev, next: right, merge, .. } = symbols[at as usize];
        let next = symbols[right as usize].next;
        symbols[right as usize].merge.rank = NO_RANK;
        symbols[at as usize].id = merge.merged;
        symbols[at as usize].next = next;
        if next != NONE {
            symbols[next as usize].prev = at;
        }
        for left in [prev, at] {
            if left != NONE {
                self.look_up(left, scratch);
            }
        }
    }

    fn look_up(&self, at: u32, scratch: &mut Scratch) {
        let Symbol { id, next, .. } = scratch.symbols[at as usize];
        let merge = match scratch.symbols.get(next as usize) {
            Some(right) => self.merges.get(id, right.id),
            None => Merge { rank: NO_RANK, merged: NO_ID },
        };
        scratch.symbols[at as usize].merge = merge;
        if merge.rank != NO_RANK {
            scratch.queue.push(queue_entry(merge.rank, at));
        }
    }
}

fn queue_entry(rank: u32, at: u32) -> Reverse<u64> {
    Reverse(u64::from(rank) << 32 | u64::from(at))
}
