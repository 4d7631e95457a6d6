//! BatchMatMul: products of two values, matrix by matrix.

use super::*;

/// `result[n, m] = Σ_k a[k, m] * b[k, n]` for every pair of matrices in the slower dimensions. Sources `a`
/// `[n_in, n_out, batch...] f32`, `b` `[n_in, n_rows, batch...] f32`; the result is `[n_out, n_rows, batch...] f32`.
#[derive(Clone, PartialEq, Debug)]
pub struct BatchMatMul;

impl OpDef for BatchMatMul {
    fn name(&self) -> &'static str {
        "BatchMatMul"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 2, weights, 0)?;
        expect_dtype(srcs, 0, DType::F32)?;
        expect_dtype(srcs, 1, DType::F32)?;
        let ([n_in, n_out, a2, a3], [_, n_rows, ..]) = (srcs[0].shape.0, srcs[1].shape.0);
        expect_shape(srcs, 1, Shape([n_in, n_rows, a2, a3]))?;
        Ok(TensorSpec::f32(Shape([n_out, n_rows, a2, a3])))
    }
}
