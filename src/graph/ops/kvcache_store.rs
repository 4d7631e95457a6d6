//! KvcacheStore: writes new keys and values into the layer's regions.

use super::*;
use crate::graph::KvFormat;

/// Shape of a layer's KV regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvShape {
    /// Token rows of each region: whole pages.
    pub n_cells: usize,
    /// Elements of a key row: `head_dim * n_head_kv`.
    pub k_row_elems: usize,
    /// Elements of a value row: `head_dim_v * n_head_kv`.
    pub v_row_elems: usize,
    /// How elements are stored.
    pub format: KvFormat,
}

impl KvShape {
    /// The regions as one value: `[k_row_elems + v_row_elems, n_cells]`.
    pub fn spec(&self) -> TensorSpec {
        TensorSpec {
            shape: Shape::d2(self.k_row_elems + self.v_row_elems, self.n_cells),
            dtype: self.format.dtype(),
        }
    }
}

/// Every row is whole blocks of the format.
pub(crate) fn expect_whole_blocks(kv: &KvShape) -> Result<(), OpError> {
    for (what, n_elems) in [("k_row_elems", kv.k_row_elems), ("v_row_elems", kv.v_row_elems)] {
        if kv.format.row_bytes(n_elems).is_none() {
            let expected = format!("a multiple of {} for {}", kv.format.block_elems(), kv.format.dtype());
            return broken(what, expected, n_elems);
        }
    }
    Ok(())
}

/// Writes row `t` of `k` and `v` to KV row `cells[t]`. Sources `k` `[k_row_elems, n_tokens] f32`,
/// `v` `[v_row_elems, n_tokens] f32`, `cells` `[n_tokens] i32`; the result is the layer's regions.
#[derive(Clone, PartialEq, Debug)]
pub struct KvcacheStore {
    /// The layer whose regions are written.
    pub layer: u32,
    /// Shape of the regions.
    pub kv: KvShape,
}

impl OpDef for KvcacheStore {
    fn name(&self) -> &'static str {
        "KvcacheStore"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 3, weights, 0)?;
        expect_dtype(srcs, 0, DType::F32)?;
        expect_dtype(srcs, 1, DType::F32)?;
        expect_dtype(srcs, 2, DType::I32)?;
        expect_whole_blocks(&self.kv)?;
        let n_tokens = srcs[2].shape.row_len();
        expect_shape(srcs, 0, Shape::d2(self.kv.k_row_elems, n_tokens))?;
        expect_shape(srcs, 1, Shape::d2(self.kv.v_row_elems, n_tokens))?;
        Ok(self.kv.spec())
    }

    fn storage(&self) -> Storage {
        Storage::Kv(self.layer)
    }

    fn kv_store(&self) -> Option<&KvcacheStore> {
        Some(self)
    }
}
