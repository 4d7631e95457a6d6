//! The fusions that the builder makes itself when it decodes one token on a device.
//!
//! They change the structure of the graph, which the fusion pass never does, so the builder has to know before
//! assignment whether a device will take the fused node. It asks a [`BuildQuery`], which answers by the rules that
//! assignment follows. The CPU claims none of these fusions.

use super::{BackendId, FusedFFN, FusedQKV, GraphParams, Op, WeightRef};

/// Widest feed-forward network that is fused, in elements of `n_ff`: the fused kernels keep a row in local memory.
pub const MAX_FUSED_FF: usize = 16384;

/// Tells a builder what assignment would do.
pub trait BuildQuery {
    /// The device that would take an f32-valued `op` of `layer` with these weights; `None` if it would go to the CPU.
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

/// Whether the builder may emit [`FusedQKV`] of the three `product` weights followed by `epilogue`
/// (`QkvBiasRopeStore` or `FusedQkvNorm`): one token, allowed by the params, both kernels on one device.
pub fn fuses_qkv(
    params: &GraphParams,
    query: &dyn BuildQuery,
    layer: u32,
    product: [&WeightRef; 3],
    epilogue: &Op,
    epilogue_weights: &[&WeightRef],
) -> bool {
    if params.n_tokens != 1 || !params.cparams.fuse_qkv {
        return false;
    }
    let device = query.device_for(Some(layer), &FusedQKV.into(), &product);
    device.is_some() && device == query.device_for(Some(layer), epilogue, epilogue_weights)
}

/// Whether the builder may emit [`FusedFFN`] of these weights `[n_embd, n_ff]`: one token, allowed by the params, not
/// too wide, the kernel on a device.
pub fn fuses_ffn(
    params: &GraphParams,
    query: &dyn BuildQuery,
    layer: u32,
    gate: &WeightRef,
    up: &WeightRef,
) -> bool {
    params.n_tokens == 1
        && params.cparams.fuse_ffn
        && gate.shape.0[1] <= MAX_FUSED_FF
        && query.device_for(Some(layer), &FusedFFN.into(), &[gate, up]).is_some()
}
