//! QkNorm: RMS norm of every head of Q or K.

use super::*;

/// RMS norm of each head on its own: source `x` `[head_dim * n_head, n_tokens] f32`, weight `w` `[head_dim] f32`.
#[derive(Clone, PartialEq, Debug)]
pub struct QkNorm {
    /// Elements of a head.
    pub head_dim: usize,
    /// Added to the mean square.
    pub eps: f32,
}

impl OpDef for QkNorm {
    fn name(&self) -> &'static str {
        "QkNorm"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 1, weights, 1)?;
        expect_dtype(srcs, 0, DType::F32)?;
        expect_weight(weights, 0, Shape::d1(self.head_dim))?;
        if self.head_dim == 0 || !srcs[0].shape.row_len().is_multiple_of(self.head_dim) {
            return broken("row of source 0", format!("a multiple of head_dim {}", self.head_dim), srcs[0].shape);
        }
        Ok(srcs[0])
    }

    fn in_place(&self) -> Option<usize> {
        Some(0)
    }
}
