//! RoPE: rotates the pairs of each head.

use super::{BackendError, Bound, GRID, Launch, PipelineKey, ROTATION, Shader, read, write};
use crate::backends::gpu::transfer;
use crate::graph::{RoPE, RopeStyle};

pub(in crate::backends::gpu) static SHADER: Shader = Shader {
    name: "rope",
    source: include_str!("rope.wgsl"),
    snippets: &[GRID, ROTATION],
    constants: &["HEAD_DIM: u32", "N_HEAD: u32", "N_PAIRS: u32", "INTERLEAVED: u32"],
    bindings: &[
        read("x", "f32"),
        read("positions", "i32"),
        read("rotations", "vec2<f32>"),
        write("out", "f32"),
    ],
    params: &["n_heads"],
};

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, RoPE);
    let n_heads = launch.call.out.shape.n_elems() / op.head_dim;
    let n_head = launch.call.out.shape.row_len() / op.head_dim;
    let n_pairs = op.n_rot / 2;
    let constants = [op.head_dim as u32, n_head as u32, n_pairs as u32, interleaved(op)];
    let key = PipelineKey::new(&SHADER, &constants).in_place(launch.is_in_place(0)?);
    launch.expect_apart(1)?;
    let table = rotations(launch, op, 0)?;
    let buffers = [launch.src(0)?, launch.src(1)?, bound(&table), launch.out()?];
    let n_items = n_heads * (op.head_dim - n_pairs);
    launch.for_each(&SHADER, key, &buffers, &[n_heads as u32], n_items, 256)
}

/// 1 if the pairs are neighbours.
pub(super) fn interleaved(op: &RoPE) -> u32 {
    u32::from(op.style == RopeStyle::Interleaved)
}

/// The table of a rotation. Weight `factors` of the node, if it has so many, divides the frequencies.
pub(super) fn rotations(
    launch: &mut Launch<'_>,
    op: &RoPE,
    factors: usize,
) -> Result<wgpu::Buffer, BackendError> {
    let Some(weight) = launch.call.node.meta.weights.get(factors) else {
        return launch.tables.rotation(launch.gpu, op, None);
    };
    let (gpu, resident) = (launch.gpu, launch.vector(factors)?);
    let values = || {
        let mut values = vec![0f32; op.n_rot / 2];
        let bound = resident.bound();
        transfer::read(gpu, bound.buffer, bound.offset_bytes, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    };
    launch.tables.rotation(gpu, op, Some((&weight.name, &values)))
}

/// A whole table.
pub(super) fn bound(table: &wgpu::Buffer) -> Bound<'_> {
    Bound { buffer: table, offset_bytes: 0, elem_bytes: 8 }
}
