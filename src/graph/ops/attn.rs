//! Attn: causal attention over paged keys and values.

use super::*;

/// Causal attention with grouped heads. Sources `q` `[head_dim * n_head, n_tokens] f32`, `kv` (the layer's
/// regions), `positions` `[n_tokens] i32`, `seq_ids` `[n_tokens] i32`, `kv_pages`
/// `[n_pages_max, n_seq_max] i32`; the result is `[head_dim_v * n_head, n_tokens] f32`. The token at position
/// `p` of sequence `s` sees positions `0..=p` of `s` (or the last `window` of them); position `j` lies in
/// cell `kv_pages[s][j / PAGE_TOKENS] * PAGE_TOKENS + j % PAGE_TOKENS`. Head `h` reads KV head
/// `h / (n_head / n_head_kv)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Attn {
    /// Query heads.
    pub n_head: usize,
    /// Key and value heads; divides `n_head`.
    pub n_head_kv: usize,
    /// Elements of a key or query head.
    pub head_dim: usize,
    /// Elements of a value head.
    pub head_dim_v: usize,
    /// Factor on `q · k`, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Number of latest positions that a token sees; `None` for all.
    pub window: Option<usize>,
}

impl OpDef for Attn {
    fn name(&self) -> &'static str {
        "Attn"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 5, weights, 0)?;
        if self.n_head_kv == 0 || !self.n_head.is_multiple_of(self.n_head_kv) {
            return broken("n_head", format!("a multiple of n_head_kv {}", self.n_head_kv), self.n_head);
        }
        expect_dtype(srcs, 0, DType::F32)?;
        // A head's keys and values are read without those of its neighbours.
        let block_elems = srcs[1].dtype.block_elems();
        for (what, n_elems) in [("head_dim", self.head_dim), ("head_dim_v", self.head_dim_v)] {
            if !n_elems.is_multiple_of(block_elems) {
                let expected = format!("a multiple of {block_elems} for {}", srcs[1].dtype);
                return broken(what, expected, n_elems);
            }
        }
        let n_tokens = srcs[0].shape.0[1];
        expect_shape(srcs, 0, Shape::d2(self.head_dim * self.n_head, n_tokens))?;
        for index in [2, 3] {
            expect_dtype(srcs, index, DType::I32)?;
            expect_shape(srcs, index, Shape::d1(n_tokens))?;
        }
        expect_dtype(srcs, 4, DType::I32)?;
        Ok(TensorSpec::f32(Shape::d2(self.head_dim_v * self.n_head, n_tokens)))
    }
}
