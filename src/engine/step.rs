//! From a batch to the inputs of its graph.

use super::{BatchToken, EngineError};
use crate::graph::{GraphType, Inputs};
use crate::kv::{KvPages, PageCopy, SeqId};

/// The graph inputs of one step, and what must happen before it.
#[derive(Default, Debug)]
pub(super) struct Step {
    token_ids: Vec<i32>,
    positions: Vec<i32>,
    cells: Vec<i32>,
    seq_ids: Vec<i32>,
    kv_pages: Vec<i32>,
    tail_ids: Vec<i32>,
    /// Rows to copy before the step, because several sequences share them and one of them is about to write.
    pub(super) copies: Vec<PageCopy>,
}

impl Step {
    /// Makes room for `tokens` in `kv` and fills all inputs. On an error some sequences may have grown already.
    pub(super) fn fill(&mut self, kv: &mut KvPages, tokens: &[BatchToken]) -> Result<(), EngineError> {
        self.reset(tokens.len());
        for seq in sequences(tokens) {
            let rows = (0..tokens.len()).filter(|&row| tokens[row].seq == seq);
            let extension = kv.extend(seq, rows.clone().count())?;
            for (i, row) in rows.enumerate() {
                self.positions[row] = (extension.first_position + i) as i32;
                self.cells[row] = extension.cells[i] as i32;
                self.seq_ids[row] = seq.0 as i32;
            }
            self.copies.extend(extension.copy);
        }
        for (row, token) in tokens.iter().enumerate() {
            self.token_ids[row] = token.token as i32;
            if token.want_logits {
                self.tail_ids.push(row as i32);
            }
        }
        kv.write_table(&mut self.kv_pages);
        Ok(())
    }

    /// Rows that need logits.
    pub(super) fn n_out(&self) -> usize {
        self.tail_ids.len()
    }

    /// The inputs as the executor takes them.
    pub(super) fn inputs(&self) -> Inputs<'_> {
        Inputs {
            token_ids: &self.token_ids,
            positions: &self.positions,
            cells: &self.cells,
            seq_ids: &self.seq_ids,
            kv_pages: &self.kv_pages,
            tail_ids: &self.tail_ids,
        }
    }

    fn reset(&mut self, n_tokens: usize) {
        for input in [&mut self.token_ids, &mut self.positions, &mut self.cells, &mut self.seq_ids] {
            input.clear();
            input.resize(n_tokens, 0);
        }
        self.tail_ids.clear();
        self.copies.clear();
    }
}

/// The sequences of a batch, each once, in order of appearance.
pub(super) fn sequences(tokens: &[BatchToken]) -> Vec<SeqId> {
    let mut seqs = Vec::new();
    for token in tokens {
        if !seqs.contains(&token.seq) {
            seqs.push(token.seq);
        }
    }
    seqs
}

/// One new token per sequence is generation, everything else is prompt processing.
pub(super) fn graph_type(tokens: &[BatchToken]) -> GraphType {
    match sequences(tokens).len() == tokens.len() {
        true => GraphType::Decode,
        false => GraphType::Prefill,
    }
}
