//! Add: elementwise sum.

use super::*;

/// `a + b`; sources `a`, `b` of one shape, f32.
#[derive(Clone, PartialEq, Debug)]
pub struct Add;

impl OpDef for Add {
    fn name(&self) -> &'static str {
        "Add"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        elementwise_pair(srcs, weights)
    }

    fn in_place(&self) -> Option<usize> {
        Some(0)
    }
}
