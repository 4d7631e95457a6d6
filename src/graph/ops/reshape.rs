//! Reshape: the same elements under another shape.

use std::fmt;

use super::*;

/// All elements of `x` as `shape`; source `x`, no copy.
#[derive(Clone, PartialEq)]
pub struct Reshape {
    /// New extents.
    pub shape: Shape,
}

/// Without the shape, which is the result's.
impl fmt::Debug for Reshape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reshape")
    }
}

impl OpDef for Reshape {
    fn name(&self) -> &'static str {
        "Reshape"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 1, weights, 0)?;
        if self.shape.n_elems() != srcs[0].shape.n_elems() {
            return broken("elements", srcs[0].shape.n_elems(), self.shape.n_elems());
        }
        Ok(TensorSpec { shape: self.shape, dtype: srcs[0].dtype })
    }

    fn storage(&self) -> Storage {
        Storage::Alias { src: 0, offset_elems: 0 }
    }
}
