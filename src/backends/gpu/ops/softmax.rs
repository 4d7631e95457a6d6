//! Softmax over rows.

use super::{BackendError, Dispatch, GRID, Launch, PipelineKey, SUM, Shader, read, write};

pub(in crate::backends::gpu) static SHADER: Shader = Shader {
    name: "softmax",
    source: include_str!("softmax.wgsl"),
    snippets: &[GRID, SUM],
    constants: &["SCALE: f32"],
    bindings: &[read("x", "f32"), write("out", "f32")],
    params: &["n_rows", "row_elems"],
};

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let scale = payload!(launch, Softmax).scale;
    let shape = launch.call.out.shape;
    let key = PipelineKey::new(&SHADER, &[scale.to_bits()]).in_place(launch.is_in_place(0)?);
    let buffers = [launch.src(0)?, launch.out()?];
    let workgroups = launch.grid(shape.n_rows())?;
    launch.dispatch(&Dispatch {
        shader: &SHADER,
        key,
        buffers: &buffers,
        params: &[shape.n_rows() as u32, shape.row_len() as u32],
        workgroups,
        weight_bytes: 0,
    })
}
