//! FusedQKV: one product for Q, K and V when decoding on a device.

use super::*;

/// Q, K and V of one token by one product with the concatenated weights. Source `x` `[n_in, 1] f32`, weights the
/// three matrices `[n_in, n_q]`, `[n_in, n_k]`, `[n_in, n_v]`; the result is `[n_q + n_k + n_v, 1] f32`. The activations meet
/// block-quantised weights with [`ActivationPrecision::Bits16`] at least, as in the three products that this one replaces.
#[derive(Clone, PartialEq, Debug)]
pub struct FusedQKV;

impl OpDef for FusedQKV {
    fn name(&self) -> &'static str {
        "FusedQKV"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        concatenated_product(srcs, weights, 3)
    }

    fn fusion(&self) -> Fusion {
        Fusion::ByBuilder
    }
}
