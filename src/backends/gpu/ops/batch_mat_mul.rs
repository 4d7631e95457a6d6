//! BatchMatMul: products of two values, matrix by matrix.

use super::{BackendError, GRID, Launch, PipelineKey, Shader, read, write};

pub(in crate::backends::gpu) static SHADER: Shader = Shader {
    name: "batch_mat_mul",
    source: include_str!("batch_mat_mul.wgsl"),
    snippets: &[GRID],
    constants: &[],
    bindings: &[read("a", "f32"), read("b", "f32"), write("out", "f32")],
    params: &["n_in", "n_out", "n_rows", "n_all"],
};

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    launch.expect_apart(0)?;
    launch.expect_apart(1)?;
    let [n_out, n_rows, ..] = launch.call.out.shape.0;
    let (n_in, n) = (launch.call.srcs[0].shape.row_len(), launch.call.out.shape.n_elems());
    let params = [n_in, n_out, n_rows, n].map(|n| n as u32);
    let buffers = [launch.src(0)?, launch.src(1)?, launch.out()?];
    launch.for_each(&SHADER, PipelineKey::new(&SHADER, &[]), &buffers, &params, n, 256)
}
