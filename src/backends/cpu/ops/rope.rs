//! RoPE.

use super::*;
use crate::graph::RopeStyle;

/// Computes the node, a token at a time.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, RoPE);
    let factors = match &launch.call.node.meta.weights[..] {
        [] => None,
        [weight, ..] => Some((&weight.name, launch.f32_weight(0)?)),
    };
    let positions = launch.i32_src(1)?;
    let rows = launch.device.rows;
    let rotate = match op.style {
        RopeStyle::NonInterleaved => rows.rope_halves,
        RopeStyle::Interleaved => rows.rope_neighbours,
    };
    let row_len = launch.call.out.shape.row_len();
    let InPlace { out, src } = launch.take_in_place()?;
    let table = launch.caches.rope.get(op, factors, positions);
    for_rows(launch.device, out, row_len, 0.4, |token, elements| {
        InPlace::load(src, token * row_len, elements);
        let (cos, sin) = table.row(token);
        for head in elements.chunks_exact_mut(op.head_dim) {
            rotate(&mut head[..op.n_rot], cos, sin);
        }
    });
    Ok(())
}
