//! RmsNorm over rows.

use super::*;

/// `x / sqrt(mean(x²) + eps) * w` over the fastest dimension; source `x` `[n_embd, n_tokens] f32`, weight `w`
/// `[n_embd] f32`.
#[derive(Clone, PartialEq, Debug)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f32,
}

impl OpDef for RmsNorm {
    fn name(&self) -> &'static str {
        "RmsNorm"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 1, weights, 1)?;
        expect_dtype(srcs, 0, DType::F32)?;
        expect_weight(weights, 0, Shape::d1(srcs[0].shape.row_len()))?;
        Ok(srcs[0])
    }

    fn in_place(&self) -> Option<usize> {
        Some(0)
    }
}
