//! Checks that the ops' shape rules share.

use super::{OpDef, OpError, RmsNorm, Shape, TensorSpec, WeightRef};
use crate::tensor::DType;

/// A broken rule.
pub(crate) fn broken<T>(
    what: impl Into<String>,
    expected: impl ToString,
    got: impl ToString,
) -> Result<T, OpError> {
    Err(OpError::new(what, expected, got))
}

/// The node has `n_srcs` sources and `n_weights` weights.
pub(crate) fn expect_counts(
    srcs: &[TensorSpec],
    n_srcs: usize,
    weights: &[WeightRef],
    n_weights: usize,
) -> Result<(), OpError> {
    if srcs.len() != n_srcs {
        return broken("number of sources", n_srcs, srcs.len());
    }
    if weights.len() != n_weights {
        return broken("number of weights", n_weights, weights.len());
    }
    Ok(())
}

/// Source `index` holds elements of `dtype`.
pub(crate) fn expect_dtype(srcs: &[TensorSpec], index: usize, dtype: DType) -> Result<(), OpError> {
    if srcs[index].dtype != dtype {
        return broken(format!("type of source {index}"), dtype, srcs[index].dtype);
    }
    Ok(())
}

/// Source `index` has exactly `shape`.
pub(crate) fn expect_shape(srcs: &[TensorSpec], index: usize, shape: Shape) -> Result<(), OpError> {
    if srcs[index].shape != shape {
        return broken(format!("shape of source {index}"), shape, srcs[index].shape);
    }
    Ok(())
}

/// Weight `index` has exactly `shape`.
pub(crate) fn expect_weight(weights: &[WeightRef], index: usize, shape: Shape) -> Result<(), OpError> {
    let weight = &weights[index];
    if weight.shape != shape {
        return broken(format!("shape of weight {}", weight.name), shape, weight.shape);
    }
    Ok(())
}

/// Two f32 sources of one shape, no weights; the result has that shape.
pub(crate) fn elementwise_pair(srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
    expect_counts(srcs, 2, weights, 0)?;
    expect_dtype(srcs, 0, DType::F32)?;
    expect_dtype(srcs, 1, DType::F32)?;
    expect_shape(srcs, 1, srcs[0].shape)?;
    Ok(srcs[0])
}

/// One f32 source, no weights; the result has its shape.
pub(crate) fn elementwise(srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
    expect_counts(srcs, 1, weights, 0)?;
    expect_dtype(srcs, 0, DType::F32)?;
    Ok(srcs[0])
}

/// The product of one token `[n_in, 1] f32` with `n_matrices` matrices `[n_in, n_out]`, results one after the
/// other. With `norm`, the norm's weight `[n_in]` comes before them.
pub(crate) fn concatenated_product(
    srcs: &[TensorSpec],
    weights: &[WeightRef],
    norm: Option<&RmsNorm>,
    n_matrices: usize,
) -> Result<TensorSpec, OpError> {
    let n_norms = usize::from(norm.is_some());
    expect_counts(srcs, 1, weights, n_norms + n_matrices)?;
    expect_dtype(srcs, 0, DType::F32)?;
    let n_in = srcs[0].shape.row_len();
    expect_shape(srcs, 0, Shape::d2(n_in, 1))?;
    if let Some(norm) = norm {
        norm.infer(srcs, &weights[..1])?;
    }
    let mut n_out = 0;
    for (index, weight) in weights.iter().enumerate().skip(n_norms) {
        expect_weight(weights, index, Shape::d2(n_in, weight.shape.0[1]))?;
        n_out += weight.shape.0[1];
    }
    Ok(TensorSpec::f32(Shape::d2(n_out, 1)))
}
