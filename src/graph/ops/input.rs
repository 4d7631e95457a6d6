//! Input: data that the caller writes before every step.

use super::*;

/// Which data an [`Input`] node holds. All of it is i32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InputKind {
    /// `[n_tokens]`: token ids.
    TokenIds,
    /// `[n_tokens]`: position of each token in its sequence, for RoPE and causality.
    Positions,
    /// `[n_tokens]`: KV row that each token is written to.
    Cells,
    /// `[n_tokens]`: row of `kv_pages` of each token's sequence.
    SeqIds,
    /// `[n_pages_max, n_seq_max]`: KV pages of each sequence in position order, -1 beyond its end.
    KvPages,
    /// `[n_out]`: rows that need logits, ascending.
    TailIds,
}

/// Data that the caller writes before every step; no sources, no weights.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// Which data.
    pub kind: InputKind,
    /// Its extents.
    pub shape: Shape,
}

impl OpDef for Input {
    fn name(&self) -> &'static str {
        "Input"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 0, weights, 0)?;
        Ok(TensorSpec::i32(self.shape))
    }
}
