//! Softmax over rows.

use super::*;

/// `softmax(x * scale)` over the fastest dimension; source `x`, f32.
#[derive(Clone, PartialEq, Debug)]
pub struct Softmax {
    /// Factor applied before the exponential.
    pub scale: f32,
}

impl OpDef for Softmax {
    fn name(&self) -> &'static str {
        "Softmax"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        elementwise(srcs, weights)
    }

    fn in_place(&self) -> Option<usize> {
        Some(0)
    }
}
