//! Fixed pages of tokens, reference-counted and copied on write.
//!
//! A sequence is a list of pages in position order; position `p` lies in cell `pages[p / PAGE_TOKENS] * PAGE_TOKENS +
//! p % PAGE_TOKENS`. Forked sequences share pages until one of them writes into a shared page, which gives it a copy
//! of its own.

use crate::graph::PAGE_TOKENS;

/// A living sequence: a row of the page table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SeqId(pub u32);

impl SeqId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why pages cannot be handed out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// All pages are taken.
    #[error("KV cache: expected {needed} free pages of {PAGE_TOKENS} tokens, got {free} of {total}")]
    Full {
        /// Pages asked for.
        needed: usize,
        /// Pages left.
        free: usize,
        /// Pages in all.
        total: usize,
    },
    /// All rows of the page table are taken.
    #[error("KV cache: expected at most {max} sequences at once, got one more")]
    TooManySequences {
        /// Rows of the page table.
        max: usize,
    },
    /// The sequence was closed or never opened.
    #[error("KV cache: sequence {0}: expected an open one, got one that is closed or never was open")]
    UnknownSequence(u32),
}

/// A page whose rows must be copied before the next step writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageCopy {
    /// First cell of the shared page.
    pub from: usize,
    /// First cell of the new page.
    pub to: usize,
    /// Rows in use: 1 to [`PAGE_TOKENS`].
    pub n_rows: usize,
}

/// Where the new tokens of a sequence go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extension {
    /// Position of the first new token.
    pub first_position: usize,
    /// KV row of each new token.
    pub cells: Vec<usize>,
    /// Copies to make before the rows are written, at most one.
    pub copy: Option<PageCopy>,
}

#[derive(Clone, Debug, Default)]
struct Sequence {
    pages: Vec<u32>,
    n_tokens: usize,
}

/// The page table of all sequences.
#[derive(Clone, Debug)]
pub struct KvPages {
    ref_counts: Vec<u32>,
    /// Free pages; the last one is handed out next.
    free: Vec<u32>,
    sequences: Vec<Option<Sequence>>,
}

impl KvPages {
    /// `n_pages` free pages for at most `n_seq_max` sequences.
    pub fn new(n_pages: usize, n_seq_max: usize) -> KvPages {
        KvPages {
            ref_counts: vec![0; n_pages],
            free: (0..n_pages as u32).rev().collect(),
            sequences: vec![None; n_seq_max],
        }
    }

    /// Opens an empty sequence.
    pub fn open(&mut self) -> Result<SeqId, KvError> {
        let row = self.free_row()?;
        self.sequences[row.index()] = Some(Sequence::default());
        Ok(row)
    }

    /// Closes a sequence; pages that nobody else shares become free.
    pub fn close(&mut self, seq: SeqId) -> Result<(), KvError> {
        self.truncate(seq, 0)?;
        self.sequences[seq.index()] = None;
        Ok(())
    }

    /// Opens a sequence with the first `n_tokens` tokens of `seq`, which both share.
    pub fn fork(&mut self, seq: SeqId, n_tokens: usize) -> Result<SeqId, KvError> {
        let parent = self.sequence(seq)?;
        let n_tokens = n_tokens.min(parent.n_tokens);
        let pages = parent.pages[..n_tokens.div_ceil(PAGE_TOKENS)].to_vec();
        let row = self.free_row()?;
        for &page in &pages {
            self.ref_counts[page as usize] += 1;
        }
        self.sequences[row.index()] = Some(Sequence { pages, n_tokens });
        Ok(row)
    }

    /// Tokens in `seq`.
    pub fn len(&self, seq: SeqId) -> Result<usize, KvError> {
        Ok(self.sequence(seq)?.n_tokens)
    }

    /// Pages that no sequence uses.
    pub fn n_free_pages(&self) -> usize {
        self.free.len()
    }

    /// Makes room for `n_tokens` more tokens of `seq`. On error nothing changes.
    pub fn extend(&mut self, seq: SeqId, n_tokens: usize) -> Result<Extension, KvError> {
        let sequence = self.sequence(seq)?;
        let first_position = sequence.n_tokens;
        let shared_tail = (n_tokens > 0 && !first_position.is_multiple_of(PAGE_TOKENS))
            .then(|| sequence.pages[first_position / PAGE_TOKENS])
            .filter(|&page| self.ref_counts[page as usize] > 1);
        let n_new = (first_position + n_tokens).div_ceil(PAGE_TOKENS) - sequence.pages.len();
        let needed = n_new + usize::from(shared_tail.is_some());
        if needed > self.free.len() {
            return Err(KvError::Full { needed, free: self.free.len(), total: self.ref_counts.len() });
        }
        let copy = shared_tail.map(|from| self.own_tail(seq, from, first_position % PAGE_TOKENS));
        for _ in 0..n_new {
            let page = self.take_page();
            self.sequence_mut(seq)?.pages.push(page);
        }
        let sequence = self.sequence_mut(seq)?;
        sequence.n_tokens += n_tokens;
        let cells =
            (first_position..first_position + n_tokens).map(|position| sequence.cell(position)).collect();
        Ok(Extension { first_position, cells, copy })
    }

    /// Drops all tokens of `seq` from position `n_tokens` on; pages that nobody else shares become free.
    pub fn truncate(&mut self, seq: SeqId, n_tokens: usize) -> Result<(), KvError> {
        let sequence = self.sequence_mut(seq)?;
        sequence.n_tokens = sequence.n_tokens.min(n_tokens);
        let n_pages = sequence.n_tokens.div_ceil(PAGE_TOKENS);
        for page in sequence.pages.split_off(n_pages).into_iter().rev() {
            self.release(page);
        }
        Ok(())
    }

    /// Writes the page table `[n_pages, n_seq_max] i32` into `table`: the pages of each sequence in position order, -1
    /// beyond its end. `table` holds one row of `n_pages` entries per sequence.
    pub fn write_table(&self, table: &mut Vec<i32>) {
        let n_pages = self.ref_counts.len();
        table.clear();
        table.resize(n_pages * self.sequences.len(), -1);
        for (row, sequence) in table.chunks_exact_mut(n_pages.max(1)).zip(&self.sequences) {
            for (entry, &page) in row.iter_mut().zip(sequence.iter().flat_map(|s| &s.pages)) {
                *entry = page as i32;
            }
        }
    }

    fn free_row(&self) -> Result<SeqId, KvError> {
        let row = self.sequences.iter().position(Option::is_none);
        row.map(|row| SeqId(row as u32)).ok_or(KvError::TooManySequences { max: self.sequences.len() })
    }

    fn sequence(&self, seq: SeqId) -> Result<&Sequence, KvError> {
        self.sequences.get(seq.index()).and_then(Option::as_ref).ok_or(KvError::UnknownSequence(seq.0))
    }

    fn sequence_mut(&mut self, seq: SeqId) -> Result<&mut Sequence, KvError> {
        self.sequences.get_mut(seq.index()).and_then(Option::as_mut).ok_or(KvError::UnknownSequence(seq.0))
    }

    /// Replaces the shared last page of `seq`, of which `n_rows` rows are in use, by one of its own.
    fn own_tail(&mut self, seq: SeqId, from: u32, n_rows: usize) -> PageCopy {
        let to = self.take_page();
        self.release(from);
        let sequence = self.sequences[seq.index()].as_mut().expect("extend has looked the sequence up");
        *sequence.pages.last_mut().expect("a sequence with a partly filled page has pages") = to;
        PageCopy { from: from as usize * PAGE_TOKENS, to: to as usize * PAGE_TOKENS, n_rows }
    }

    fn take_page(&mut self) -> u32 {
        let page = self.free.pop().expect("extend has counted the free pages");
        self.ref_counts[page as usize] = 1;
        page
    }

    fn release(&mut self, page: u32) {
        let count = &mut self.ref_counts[page as usize];
        *count -= 1;
        if *count == 0 {
            self.free.push(page);
        }
    }
}

impl Sequence {
    fn cell(&self, position: usize) -> usize {
        self.pages[position / PAGE_TOKENS] as usize * PAGE_TOKENS + position % PAGE_TOKENS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_fill_pages_in_position_order() {
        let mut kv = KvPages::new(4, 2);
        let seq = kv.open().unwrap();
        let first = kv.extend(seq, PAGE_TOKENS + 1).unwrap();
        assert_eq!((first.first_position, first.cells.len()), (0, PAGE_TOKENS + 1));
        let next = kv.extend(seq, 1).unwrap();
        assert_eq!((next.first_position, next.cells[0]), (PAGE_TOKENS + 1, first.cells[PAGE_TOKENS] + 1));
        assert_eq!(kv.n_free_pages(), 2);
    }

    #[test]
    fn a_fork_shares_full_pages_and_copies_the_page_it_writes_to() {
        let mut kv = KvPages::new(8, 2);
        let parent = kv.open().unwrap();
        let cells = kv.extend(parent, PAGE_TOKENS + 5).unwrap().cells;
        let child = kv.fork(parent, usize::MAX).unwrap();
        assert_eq!(kv.n_free_pages(), 6);
        let extension = kv.extend(child, 1).unwrap();
        let copy = extension.copy.unwrap();
        assert_eq!((copy.from, copy.n_rows), (cells[PAGE_TOKENS], 5));
        assert_eq!(extension.cells, [copy.to + 5]);
        assert_eq!(kv.extend(parent, 1).unwrap().copy, None, "the parent is alone on its page now");
    }

    #[test]
    fn a_fork_of_a_prefix_that_ends_inside_a_page_copies_only_the_rows_it_has() {
        let mut kv = KvPages::new(4, 2);
        let parent = kv.open().unwrap();
        kv.extend(parent, 20).unwrap();
        let child = kv.fork(parent, 7).unwrap();
        assert_eq!(kv.extend(child, 1).unwrap().copy.unwrap().n_rows, 7);
    }

    #[test]
    fn a_refused_extension_changes_nothing() {
        let mut kv = KvPages::new(2, 1);
        let seq = kv.open().unwrap();
        kv.extend(seq, 10).unwrap();
        let full = KvError::Full { needed: 2, free: 1, total: 2 };
        assert_eq!(kv.extend(seq, 2 * PAGE_TOKENS), Err(full));
        assert_eq!((kv.len(seq).unwrap(), kv.n_free_pages()), (10, 1));
    }

    #[test]
    fn closing_every_sequence_frees_every_page() {
        let mut kv = KvPages::new(8, 3);
        let parent = kv.open().unwrap();
        kv.extend(parent, 100).unwrap();
        let child = kv.fork(parent, 64).unwrap();
        kv.extend(child, 30).unwrap();
        kv.close(parent).unwrap();
        assert_eq!(kv.len(child).unwrap(), 94);
        kv.close(child).unwrap();
        assert_eq!(kv.n_free_pages(), 8);
        assert_eq!(kv.close(child), Err(KvError::UnknownSequence(child.0)));
    }

    #[test]
    fn the_table_lists_pages_and_pads_with_minus_one() {
        let mut kv = KvPages::new(3, 2);
        let (a, b) = (kv.open().unwrap(), kv.open().unwrap());
        kv.extend(a, 1).unwrap();
        kv.extend(b, PAGE_TOKENS + 1).unwrap();
        let mut table = Vec::new();
        kv.write_table(&mut table);
        assert_eq!(table, [0, -1, -1, 1, 2, -1]);
    }

    #[test]
    fn there_are_only_as_many_sequences_as_rows() {
        let mut kv = KvPages::new(3, 1);
        kv.open().unwrap();
        assert_eq!(kv.open(), Err(KvError::TooManySequences { max: 1 }));
    }
}
