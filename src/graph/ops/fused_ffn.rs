//! FusedFFN: norm, gate, up and activation in one node when decoding on a device.

use super::*;

/// `silu(W_gate x) * (W_up x)` of one token by one product with the concatenated weights, optionally of the
/// normalised `x`. Source `x` `[n_in, 1] f32`, weights that of the norm `[n_in]`, if there is one, then
/// `W_gate`, `W_up` `[n_in, n_ff]`; the result is `[2 * n_ff, 1] f32`, whose first `n_ff` elements are the
/// activation: the rest is what the in-place activation leaves of the product.
#[derive(Clone, PartialEq, Debug)]
pub struct FusedFFN {
    /// What is done to `x` first; the result has the bits of an [`RmsNorm`] node and a product without norm.
    pub norm: Option<RmsNorm>,
}

impl OpDef for FusedFFN {
    fn name(&self) -> &'static str {
        "FusedFFN"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        let both = concatenated_product(srcs, weights, self.norm.as_ref(), 2)?;
        let gate = usize::from(self.norm.is_some());
        expect_weight(weights, gate + 1, weights[gate].shape)?;
        Ok(both)
    }

    fn fusion() -> Fusion {
        Fusion::ByBuilder
    }
}
