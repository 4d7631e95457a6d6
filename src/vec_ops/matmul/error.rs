//! Why a matmul was refused.

use crate::error::Hint;
use crate::tensor::{DType, Shape};

/// A violated precondition of a matmul. Nothing has been computed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatmulError {
    /// The weight has a type that is never multiplied.
    #[error("matmul: weight type: expected a float or block-quantised type, got {0}")]
    WeightType(DType),
    /// The weight is not a matrix of whole blocks.
    #[error(
        "matmul: weight shape: expected [n_in, n_out] with n_in above 0 and in whole blocks of {dtype}, got {shape}"
    )]
    WeightShape {
        /// Type of the weight.
        dtype: DType,
        /// Its shape.
        shape: Shape,
    },
    /// A buffer has the wrong length.
    #[error("matmul: length of {what}: expected {expected}, got {got}")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// Elements (bytes for weights) that the shapes ask for.
        expected: usize,
        /// Elements there are.
        got: usize,
    },
    /// The activations are in the wrong form for the weight's type.
    #[error("matmul: activations for {dtype} weights: expected {expected}, got {got}")]
    Form {
        /// Type of the weight.
        dtype: DType,
        /// The form it needs.
        expected: &'static str,
        /// The form given.
        got: &'static str,
    },
    /// The row length of activations to be quantised is not made of whole blocks.
    #[error("quantising activations: n_in: expected a multiple of 32, got {0}")]
    PartialBlock(usize),
}

impl Hint for MatmulError {}

/// `Err` unless `got` is `expected`.
pub(super) fn check_len(what: &'static str, expected: usize, got: usize) -> Result<(), MatmulError> {
    if expected == got { Ok(()) } else { Err(MatmulError::Length { what, expected, got }) }
}
