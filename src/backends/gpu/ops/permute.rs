//! Permute: dimensions in another order.

use super::{BackendError, GRID, Launch, PipelineKey, Shader, read, write};

pub(in crate::backends::gpu) static SHADER: Shader = Shader {
    name: "permute",
    source: include_str!("permute.wgsl"),
    snippets: &[GRID],
    constants: &[],
    bindings: &[read("x", "f32"), write("out", "f32")],
    params: &["n0", "n1", "n2", "n3", "s0", "s1", "s2", "s3"],
};

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    launch.expect_apart(0)?;
    let axes = payload!(launch, Permute).axes;
    let [n0, n1, n2, _] = launch.call.srcs[0].shape.0;
    let strides = [1, n0, n0 * n1, n0 * n1 * n2];
    let extents = launch.call.out.shape.0.map(|n| n as u32);
    let strides = axes.map(|axis| strides[axis] as u32);
    let params: Vec<u32> = extents.into_iter().chain(strides).collect();
    let buffers = [launch.src(0)?, launch.out()?];
    let n = launch.call.out.shape.n_elems();
    launch.for_each(&SHADER, PipelineKey::new(&SHADER, &[]), &buffers, &params, n, 256)
}
