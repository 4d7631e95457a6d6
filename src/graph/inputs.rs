//! The data of one step.

use super::InputKind;

/// What the caller writes before a step; see [`InputKind`] for shapes. A graph reads only the kinds that it has.
#[derive(Clone, Copy, Default, Debug)]
pub struct Inputs<'a> {
    /// `[n_tokens]`: token ids.
    pub token_ids: &'a [i32],
    /// `[n_tokens]`: position of each token in its sequence.
    pub positions: &'a [i32],
    /// `[n_tokens]`: KV row that each token is written to.
    pub cells: &'a [i32],
    /// `[n_tokens]`: row of `kv_pages` of each token's sequence.
    pub seq_ids: &'a [i32],
    /// `[n_pages_max, n_seq_max]`: KV pages of each sequence, -1 beyond its end.
    pub kv_pages: &'a [i32],
    /// `[n_out]`: rows that need logits, ascending.
    pub tail_ids: &'a [i32],
}

impl<'a> Inputs<'a> {
    /// The data of one kind.
    pub fn get(&self, kind: InputKind) -> &'a [i32] {
        match kind {
            InputKind::TokenIds => self.token_ids,
            InputKind::Positions => self.positions,
            InputKind::Cells => self.cells,
            InputKind::SeqIds => self.seq_ids,
            InputKind::KvPages => self.kv_pages,
            InputKind::TailIds => self.tail_ids,
        }
    }
}
