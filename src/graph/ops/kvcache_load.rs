//! KvcacheLoad: the layer's regions after this step's keys and values are in.

use super::*;

/// The layer's regions as attention reads them; the source is the layer's [`KvcacheStore`], which orders the two.
#[derive(Clone, PartialEq, Debug)]
pub struct KvcacheLoad {
    /// The layer whose regions are read.
    pub layer: u32,
}

impl OpDef for KvcacheLoad {
    fn name(&self) -> &'static str {
        "KvcacheLoad"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 1, weights, 0)?;
        Ok(srcs[0])
    }

    fn storage(&self) -> Storage {
        Storage::Kv(self.layer)
    }
}
