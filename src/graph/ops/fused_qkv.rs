//! FusedQKV: the norm before attention and one product for Q, K and V when decoding on a device.

use super::*;

/// Q, K and V of one token by one product with the concatenated weights, optionally of the normalised `x`.
/// Source `x` `[n_in, 1] f32`, weights that of the norm `[n_in]`, if there is one, then the three matrices
/// `[n_in, n_q]`, `[n_in, n_k]`, `[n_in, n_v]`; the result is `[n_q + n_k + n_v, 1] f32`. The activations
/// meet block-quantised weights with [`ActivationPrecision::Bits16`] at least, as in the three products that
/// this one replaces.
#[derive(Clone, PartialEq, Debug)]
pub struct FusedQKV {
    /// What is done to `x` first; the result has the bits of an [`RmsNorm`] node and a product without norm.
    pub norm: Option<RmsNorm>,
}

impl OpDef for FusedQKV {
    fn name(&self) -> &'static str {
        "FusedQKV"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        concatenated_product(srcs, weights, self.norm.as_ref(), 3)
    }

    fn fusion() -> Fusion {
        Fusion::ByBuilder
    }
}
