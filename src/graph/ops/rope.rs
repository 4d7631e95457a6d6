//! RoPE: rotary position embedding.

use super::*;

/// Which elements of a head form the rotated pairs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RopeStyle {
    /// Pairs `(i, i + n_rot / 2)`: qwen2, qwen3.
    NonInterleaved,
    /// Pairs `(2i, 2i + 1)`: llama.
    Interleaved,
}

/// YaRN's correction of the rotation angles (Peng et al., "YaRN: Efficient Context Window Extension", 2023).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Yarn {
    /// Weight of the extrapolated angles, 1 for YaRN.
    pub ext_factor: f32,
    /// Factor on the magnitude of cosine and sine, before YaRN's own `1 + 0.1 ln(1 / freq_scale)`.
    pub attn_factor: f32,
    /// Rotations over the original context above which angles are not interpolated.
    pub beta_fast: f32,
    /// Rotations below which they are interpolated fully.
    pub beta_slow: f32,
    /// Context length that the model was trained with, in tokens.
    pub n_ctx_orig: usize,
}

/// Rotates pairs of each head by `position * freq_base^(-2i / n_rot) * freq_scale` (Su et al., "RoFormer", 2021).
/// Sources `x` `[head_dim * n_head, n_tokens] f32`, `positions` `[n_tokens] i32`; optional weight `rope_freqs`
/// `[n_rot / 2] f32`, by which each pair's frequency is divided.
#[derive(Clone, PartialEq, Debug)]
pub struct RoPE {
    /// Which elements form pairs.
    pub style: RopeStyle,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements of a head that are rotated, from its start; even.
    pub n_rot: usize,
    /// Base of the geometric series of frequencies.
    pub freq_base: f32,
    /// Factor on all angles: 1, or 1 / the linear scaling factor.
    pub freq_scale: f32,
    /// YaRN scaling, if the model uses it.
    pub yarn: Option<Yarn>,
}

impl OpDef for RoPE {
    fn name(&self) -> &'static str {
        "RoPE"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 2, weights, weights.len().min(1))?;
        expect_dtype(srcs, 0, DType::F32)?;
        expect_dtype(srcs, 1, DType::I32)?;
        if self.head_dim == 0 || !srcs[0].shape.row_len().is_multiple_of(self.head_dim) {
            return broken("row of source 0", format!("a multiple of head_dim {}", self.head_dim), srcs[0].shape);
        }
        if !self.n_rot.is_multiple_of(2) || self.n_rot > self.head_dim {
            return broken("n_rot", format!("even, at most head_dim {}", self.head_dim), self.n_rot);
        }
        if !weights.is_empty() {
            expect_weight(weights, 0, Shape::d1(self.n_rot / 2))?;
        }
        expect_shape(srcs, 1, Shape::d1(srcs[0].shape.n_rows()))?;
        Ok(srcs[0])
    }

    fn in_place(&self) -> Option<usize> {
        Some(0)
    }
}
