//! RmsNorm and QkNorm: the norm of rows or of heads.

use super::{BackendError, Dispatch, GRID, Launch, PipelineKey, RMS, SUM, Shader, read, write};

pub(in crate::backends::gpu) static SHADER: Shader = Shader {
    name: "rms_norm",
    source: include_str!("rms_norm.wgsl"),
    snippets: &[GRID, RMS, SUM],
    constants: &["ROW_ELEMS: u32", "EPS: f32"],
    bindings: &[read("x", "f32"), read("norm", "f32"), write("out", "f32")],
    params: &["n_rows"],
};

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let eps = payload!(launch, RmsNorm).eps;
    norm(launch, launch.call.out.shape.row_len(), eps)
}

pub(in crate::backends::gpu) fn launch_heads(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, QkNorm);
    norm(launch, op.head_dim, op.eps)
}

fn norm(launch: &mut Launch<'_>, row_elems: usize, eps: f32) -> Result<(), BackendError> {
    let n_rows = launch.call.out.shape.n_elems() / row_elems;
    let key = PipelineKey::new(&SHADER, &[row_elems as u32, eps.to_bits()]).in_place(launch.is_in_place(0)?);
    let weight = launch.vector(0)?;
    let buffers = [launch.src(0)?, weight.bound(), launch.out()?];
    let workgroups = launch.grid(n_rows)?;
    launch.dispatch(&Dispatch {
        shader: &SHADER,
        key,
        buffers: &buffers,
        params: &[n_rows as u32],
        workgroups,
        weight_bytes: weight.row_bytes(),
    })
}
