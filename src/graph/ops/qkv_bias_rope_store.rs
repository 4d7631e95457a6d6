//! QkvBiasRopeStore: what follows a fused Q/K/V product of a biased layer.

use super::*;

/// Adds the three biases to a [`FusedQKV`] result, rotates Q and K, and writes K and V to the layer's
/// regions. Sources `qkv` `[n_q + n_k + n_v, 1] f32`, `positions` `[1] i32`, `cells` `[1] i32`; weights the
/// biases `[n_q]`, `[n_k]`, `[n_v]`, or none, then optionally the RoPE frequency factors; the result is the
/// rotated Q, `[n_q, 1] f32`.
#[derive(Clone, PartialEq, Debug)]
pub struct QkvBiasRopeStore {
    /// Elements of Q.
    pub n_q: usize,
    /// The three biases come first in the weights.
    pub bias: bool,
    /// The rotation.
    pub rope: RoPE,
    /// The regions written.
    pub store: KvcacheStore,
}

impl OpDef for QkvBiasRopeStore {
    fn name(&self) -> &'static str {
        "QkvBiasRopeStore"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        let n_biases = if self.bias { 3 } else { 0 };
        expect_counts(srcs, 3, weights, n_biases + usize::from(weights.len() > n_biases))?;
        fused_epilogue(srcs, self.n_q, &self.store)?;
        if self.bias {
            let (n_k, n_v) = (self.store.kv.k_row_elems, self.store.kv.v_row_elems);
            for (index, n) in [self.n_q, n_k, n_v].into_iter().enumerate() {
                expect_weight(weights, index, Shape::d1(n))?;
            }
        }
        Ok(TensorSpec::f32(Shape::d2(self.n_q, 1)))
    }

    fn kv_store(&self) -> Option<&KvcacheStore> {
        Some(&self.store)
    }

    fn fusion() -> Fusion {
        Fusion::ByBuilder
    }
}

/// Checks the sources that the epilogues of a fused Q/K/V product share.
pub(crate) fn fused_epilogue(srcs: &[TensorSpec], n_q: usize, store: &KvcacheStore) -> Result<(), OpError> {
    expect_dtype(srcs, 0, DType::F32)?;
    expect_whole_blocks(&store.kv)?;
    expect_shape(srcs, 0, Shape::d2(n_q + store.kv.k_row_elems + store.kv.v_row_elems, 1))?;
    for index in [1, 2] {
        expect_dtype(srcs, index, DType::I32)?;
        expect_shape(srcs, index, Shape::d1(1))?;
    }
    Ok(())
}
