//! Silu: `x * sigmoid(x)`.

use super::*;

/// `x * sigmoid(x)`; source `x`, f32.
#[derive(Clone, PartialEq, Debug)]
pub struct Silu;

impl OpDef for Silu {
    fn name(&self) -> &'static str {
        "Silu"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        elementwise(srcs, weights)
    }

    fn in_place(&self) -> Option<usize> {
        Some(0)
    }
}
