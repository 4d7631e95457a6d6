//! Mul: elementwise product.

use super::*;

/// `a * b`; sources `a`, `b` of one shape, f32.
#[derive(Clone, PartialEq, Debug)]
pub struct Mul;

impl OpDef for Mul {
    fn name(&self) -> &'static str {
        "Mul"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        elementwise_pair(srcs, weights)
    }

    fn in_place(&self) -> Option<usize> {
        Some(0)
    }
}
