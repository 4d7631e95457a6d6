//! Input: data that the caller writes before every step.

use std::fmt;

use super::*;
use crate::graph::{GraphParams, PAGE_TOKENS};

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

impl InputKind {
    /// Every kind, in declaration order.
    pub const ALL: [InputKind; 6] = [
        InputKind::TokenIds,
        InputKind::Positions,
        InputKind::Cells,
        InputKind::SeqIds,
        InputKind::KvPages,
        InputKind::TailIds,
    ];

    /// Name of the node that holds it.
    pub fn name(self) -> &'static str {
        match self {
            InputKind::TokenIds => "token_ids",
            InputKind::Positions => "positions",
            InputKind::Cells => "cells",
            InputKind::SeqIds => "seq_ids",
            InputKind::KvPages => "kv_pages",
            InputKind::TailIds => "tail_ids",
        }
    }

    /// Its extents in a graph built from `params`.
    pub fn shape(self, params: &GraphParams) -> Shape {
        match self {
            InputKind::TokenIds | InputKind::Positions | InputKind::Cells | InputKind::SeqIds => {
                Shape::d1(params.n_tokens)
            }
            InputKind::KvPages => Shape::d2(params.cparams.n_ctx / PAGE_TOKENS, params.cparams.n_seq_max),
            InputKind::TailIds => Shape::d1(params.n_out),
        }
    }
}

/// Data that the caller writes before every step; no sources, no weights.
#[derive(Clone, PartialEq)]
pub struct Input {
    /// Which data.
    pub kind: InputKind,
    /// Its extents.
    pub shape: Shape,
}

/// Without the shape, which is the result's.
impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input {{ kind: {:?} }}", self.kind)
    }
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
