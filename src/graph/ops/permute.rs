//! Permute: dimensions in another order.

use super::*;

/// Copies `x` so that dimension `axes[i]` of the source becomes dimension `i` of the result; source `x`, f32.
#[derive(Clone, PartialEq, Debug)]
pub struct Permute {
    /// A permutation of 0, 1, 2, 3.
    pub axes: [usize; 4],
}

impl OpDef for Permute {
    fn name(&self) -> &'static str {
        "Permute"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 1, weights, 0)?;
        expect_dtype(srcs, 0, DType::F32)?;
        let mut sorted = self.axes;
        sorted.sort_unstable();
        if sorted != [0, 1, 2, 3] {
            return broken("axes", "a permutation of 0, 1, 2, 3", format!("{:?}", self.axes));
        }
        Ok(TensorSpec { shape: Shape(self.axes.map(|axis| srcs[0].shape.0[axis])), dtype: srcs[0].dtype })
    }
}
