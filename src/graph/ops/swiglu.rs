//! SwiGLU: `silu(gate) * up` in one pass.

use super::*;

/// `silu(gate) * up`; sources `gate`, `up` of one shape, f32. Made by the fusion pass.
#[derive(Clone, PartialEq, Debug)]
pub struct SwiGLU;

impl OpDef for SwiGLU {
    fn name(&self) -> &'static str {
        "SwiGLU"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        elementwise_pair(srcs, weights)
    }

    fn in_place(&self) -> Option<usize> {
        Some(0)
    }

    fn fusion() -> Fusion {
        Fusion::ByPass(FusedOp::SwiGLU)
    }
}
