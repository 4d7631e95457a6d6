//! MatMul: a weight matrix times activations.

use super::*;

/// `W x (+ b)`: source `x` `[n_in, n_tokens] f32`, weights `W` `[n_in, n_out]` of any type and, with `bias`, `b` `[n_out] f32`;
/// the result is `[n_out, n_tokens] f32`.
#[derive(Clone, PartialEq, Debug)]
pub struct MatMul {
    /// A bias vector follows the matrix in the weights.
    pub bias: bool,
    /// How precisely `x` has to meet block-quantised weights.
    pub activations: ActivationPrecision,
}

/// The least precision that a product with block-quantised weights keeps of its activations. Backends may keep more, and do where the
/// weights are floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActivationPrecision {
    /// Eight bits per element and a scale per block of 32: the fastest that integer kernels have.
    Bits8,
    /// Sixteen bits per element and block.
    Bits16,
}

impl OpDef for MatMul {
    fn name(&self) -> &'static str {
        "MatMul"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 1, weights, 1 + usize::from(self.bias))?;
        expect_dtype(srcs, 0, DType::F32)?;
        let [n_in, n_out, ..] = weights[0].shape.0;
        expect_weight(weights, 0, Shape::d2(n_in, n_out))?;
        if self.bias {
            expect_weight(weights, 1, Shape::d1(n_out))?;
        }
        let n_tokens = srcs[0].shape.0[1];
        expect_shape(srcs, 0, Shape::d2(n_in, n_tokens))?;
        Ok(TensorSpec::f32(Shape::d2(n_out, n_tokens)))
    }
}
