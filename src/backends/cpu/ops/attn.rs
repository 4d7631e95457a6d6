//! Attn.

use super::*;
use crate::backends::cpu::attention::{Attention, BadInput, Tokens, tiles};
use crate::backends::cpu::values::Source;
use crate::graph::{Attn, PAGE_TOKENS};
use crate::tensor::DType;

/// The kernel computes every attention that lets a token see something.
pub(crate) fn accepts(op: &Op, dtype: DType) -> bool {
    matches!(op, Op::Attn(op) if dtype == DType::F32 && op.window != Some(0) && op.head_dim_v > 0)
}

/// Computes the node.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, Attn);
    let out = launch.take_out()?;
    let (layer, n_pages) = regions(launch, op)?;
    let tokens = Tokens {
        positions: launch.i32_src(2)?,
        seq_ids: launch.i32_src(3)?,
        kv_pages: launch.i32_src(4)?,
        n_pages_max: launch.call.srcs[4].shape.row_len(),
        n_pages,
        window: op.window,
    };
    let tiles = tiles(&tokens, op.n_head / op.n_head_kv)
        .map_err(|BadInput { what, expected, got }| launch.broken(what, expected, got))?;
    let q = launch.f32_src(0)?;
    let Some(kv) = launch.kv.get(layer) else {
        return Err(launch.broken("KV regions", format!("those of layer {layer}"), "none"));
    };
    let attention = Attention { device: launch.device, op, kv, tiles, q };
    attention.run(&mut launch.caches.attention, out);
    Ok(())
}

/// The layer of source 1, whose rows have the length that the heads take, and the number of its pages.
fn regions(launch: &Launch<'_>, op: &Attn) -> Result<(u32, usize), BackendError> {
    let Source::Kv(layer) = launch.values.srcs[1] else {
        return Err(launch.broken("source 1", "the KV regions of a layer", "a buffer"));
    };
    let kv = launch.kv.get(layer);
    let kv = kv.ok_or_else(|| launch.broken("KV regions", format!("those of layer {layer}"), "none"))?;
    let rows = (op.n_head_kv * op.head_dim, op.n_head_kv * op.head_dim_v);
    let got = (kv.shape().k_row_elems, kv.shape().v_row_elems);
    if got != rows {
        return Err(launch.broken("key and value rows", format!("{rows:?}"), format!("{got:?}")));
    }
    let block_elems = kv.shape().format.block_elems();
    if !op.head_dim.is_multiple_of(block_elems) || !op.head_dim_v.is_multiple_of(block_elems) {
        let got = format!("{} and {}", op.head_dim, op.head_dim_v);
        return Err(launch.broken("head_dim and head_dim_v", format!("multiples of {block_elems}"), got));
    }
    Ok((layer, kv.shape().n_cells / PAGE_TOKENS))
}
