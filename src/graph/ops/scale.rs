//! Scale: multiplication by a constant.

use super::*;

/// `x * factor`; source `x`, f32.
#[derive(Clone, PartialEq, Debug)]
pub struct Scale {
    /// The constant.
    pub factor: f32,
}

impl OpDef for Scale {
    fn name(&self) -> &'static str {
        "Scale"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        elementwise(srcs, weights)
    }

    fn in_place(&self) -> Option<usize> {
        Some(0)
    }
}
