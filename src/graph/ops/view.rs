//! View: a contiguous part of a value under another shape.

use std::fmt;

use super::*;

/// The elements of `x` from `offset_elems` on, as `shape`; source `x`, no copy.
#[derive(Clone, PartialEq)]
pub struct View {
    /// First element.
    pub offset_elems: usize,
    /// Extents of the view.
    pub shape: Shape,
}

/// Without the shape, which is the result's.
impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View {{ offset_elems: {} }}", self.offset_elems)
    }
}

impl OpDef for View {
    fn name(&self) -> &'static str {
        "View"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 1, weights, 0)?;
        if self.offset_elems + self.shape.n_elems() > srcs[0].shape.n_elems() {
            let end = self.offset_elems + self.shape.n_elems();
            return broken("end of the view", format!("at most {}", srcs[0].shape.n_elems()), end);
        }
        Ok(TensorSpec { shape: self.shape, dtype: srcs[0].dtype })
    }

    fn storage(&self) -> Storage {
        Storage::Alias { src: 0, offset_elems: self.offset_elems }
    }
}
