//! The fusions that the builder makes itself when it decodes one token on a device.
//!
//! They change the structure of the graph, which the fusion pass never does, so the builder has to know
//! before assignment whether a device will take the fused node. It asks a [`BuildQuery`], which answers by
//! the rules that assignment follows. The CPU claims none of these fusions.

use super::{BackendId, GraphParams, Op, WeightRef};

/// Widest feed-forward network that is fused, in elements of `n_ff`: the fused kernels keep a row in local
/// memory.
pub const MAX_FUSED_FF: usize = 16384;

/// Tells a builder what assignment would do.
pub trait BuildQuery {
    /// The device that would take an f32-valued `op` of `layer` with these weights; `None` if it would go to
    /// the CPU.
    fn device_for(&self, layer: Option<u32>, op: &Op, weights: &[&WeightRef]) -> Option<BackendId>;
}

/// There is no device.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoDevice;

impl BuildQuery for NoDevice {
    fn device_for(&self, _: Option<u32>, _: &Op, _: &[&WeightRef]) -> Option<BackendId> {
        None
    }
}

/// A node that the builder would emit: its op and its weights.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The op.
    pub op: &'a Op,
    /// Its weights in the order that the op documents.
    pub weights: &'a [&'a WeightRef],
}

impl Candidate<'_> {
    fn device(self, query: &dyn BuildQuery, layer: u32) -> Option<BackendId> {
        query.device_for(Some(layer), self.op, self.weights)
    }
}

/// Whether the builder may emit `product` ([`FusedQKV`](super::FusedQKV)) followed by `epilogue`
/// ([`QkvBiasRopeStore`](super::QkvBiasRopeStore) or [`FusedQkvNorm`](super::FusedQkvNorm)) in a layer with
/// `attn`: one token, allowed by the params, all three kernels on one device. Attention takes part since keys
/// and values go where all that touches them can go.
pub fn fuses_qkv(
    params: &GraphParams,
    query: &dyn BuildQuery,
    layer: u32,
    product: Candidate<'_>,
    epilogue: Candidate<'_>,
    attn: &Op,
) -> bool {
    if params.n_tokens != 1 || !params.cparams.fuse_qkv {
        return false;
    }
    let device = product.device(query, layer);
    let attn = Candidate { op: attn, weights: &[] };
    device.is_some() && [epilogue, attn].iter().all(|node| node.device(query, layer) == device)
}

/// Whether the builder may emit `product` ([`FusedFFN`](super::FusedFFN)) of matrices `[n_embd, n_ff]`: one
/// token, allowed by the params, not too wide, the kernel on a device.
pub fn fuses_ffn(params: &GraphParams, query: &dyn BuildQuery, layer: u32, product: Candidate<'_>) -> bool {
    params.n_tokens == 1
        && params.cparams.fuse_ffn
        && product.weights.last().is_some_and(|up| up.shape.0[1] <= MAX_FUSED_FF)
        && product.device(query, layer).is_some()
}
