//! MatMulAdd: a product and the residual that it is added to.

use super::*;

/// `(W x (+ b)) + r`: sources `x` `[n_in, n_tokens] f32`, `r` `[n_out, n_tokens] f32`, weights as of
/// [`MatMul`]; the result is `[n_out, n_tokens] f32`. Made by the fusion pass.
#[derive(Clone, PartialEq, Debug)]
pub struct MatMulAdd {
    /// A bias vector follows the matrix in the weights.
    pub bias: bool,
    /// How precisely `x` has to meet block-quantised weights.
    pub activations: ActivationPrecision,
}

impl OpDef for MatMulAdd {
    fn name(&self) -> &'static str {
        "MatMulAdd"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 2, weights, 1 + usize::from(self.bias))?;
        let product = MatMul { bias: self.bias, activations: self.activations }.infer(&srcs[..1], weights)?;
        expect_dtype(srcs, 1, DType::F32)?;
        expect_shape(srcs, 1, product.shape)?;
        Ok(product)
    }

    fn in_place(&self) -> Option<usize> {
        Some(1)
    }

    fn fusion() -> Fusion {
        Fusion::ByPass(FusedOp::MatMulAdd)
    }
}
