//! FusedQkvNorm: what follows a fused Q/K/V product of a layer with per-head norms.

use super::*;

/// Normalises each head of Q and K of a [`FusedQKV`] result, rotates them, and writes K and V to the layer's
/// regions. Sources `qkv` `[n_q + n_k + n_v, 1] f32`, `positions` `[1] i32`, `cells` `[1] i32`; weights the
/// norms of Q and K `[head_dim]`, then optionally the RoPE frequency factors; the result is the rotated Q,
/// `[n_q, 1] f32`.
#[derive(Clone, PartialEq, Debug)]
pub struct FusedQkvNorm {
    /// Elements of Q.
    pub n_q: usize,
    /// The per-head norm.
    pub norm: QkNorm,
    /// The rotation.
    pub rope: RoPE,
    /// The regions written.
    pub store: KvcacheStore,
}

impl OpDef for FusedQkvNorm {
    fn name(&self) -> &'static str {
        "FusedQkvNorm"
    }

    fn infer(&self, srcs: &[TensorSpec], weights: &[WeightRef]) -> Result<TensorSpec, OpError> {
        expect_counts(srcs, 3, weights, 2 + usize::from(weights.len() > 2))?;
        fused_epilogue(srcs, self.n_q, &self.store)?;
        expect_weight(weights, 0, Shape::d1(self.norm.head_dim))?;
        expect_weight(weights, 1, Shape::d1(self.norm.head_dim))?;
        Ok(TensorSpec::f32(Shape::d2(self.n_q, 1)))
    }

    fn kv_store(&self) -> Option<&KvcacheStore> {
        Some(&self.store)
    }

    fn fusion() -> Fusion {
        Fusion::ByBuilder
    }
}
