//! FusedFFN: gate, up and activation in one node when decoding on a device.

use super::*;

/// `silu(W_gate x) * (W_up x)` of one token by one product with the concatenated weights. Source `x` `[n_in, 1] f32`,
/// weights `W_gate`, `W_up` `[n_in, n_ff]`; the result is `[2 * n_ff, 1] f32`, whose first `n_ff` elements are the
/// activation: the rest is what the in-place activation leaves of the product.
#[derive(Clone, PartialEq, Debug)]
pub struct FusedFFN;

impl OpDef for FusedFFN {
    fn name(&self) -> &'static str {
        "FusedFFN"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        let both = concatenated_product(srcs, weights, 2)?;
        expect_weight(weights, 1, weights[0].shape)?;
        Ok(both)
    }

    fn fusion(&self) -> Fusion {
        Fusion::ByBuilder
    }
}
