//! FusedFFN: the norm before the feed-forward network, gate and up in one product, and the activation.

use super::product::{Product, is_contiguous, run};
use super::{ACTIVATION, BackendError, GRID, Launch, PipelineKey, Shader, read, write};

/// The activation of a product whose halves are gates and ups, over its first half.
pub(in crate::backends::gpu) static HALVES: Shader = Shader {
    name: "swiglu_halves",
    source: include_str!("elementwise.wgsl"),
    snippets: &[
        GRID,
        ACTIVATION,
        "fn b_load(i: u32) -> f32 { return out[p.out_at + p.n + i]; }\n",
        "fn combine(a: f32, b: f32) -> f32 { return swiglu(a, b); }\n",
    ],
    constants: &[],
    bindings: &[read("a", "f32"), write("out", "f32")],
    params: &["n"],
};

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let norm = payload!(launch, FusedFFN).norm.clone();
    let (product, matrices) = Product::normed(launch, norm.as_ref())?;
    if is_contiguous(&matrices) {
        return run(launch, &Product { gated: true, ..product }, &matrices, None);
    }
    // Gate and up are of different types, so that one kernel does not read both.
    run(launch, &product, &matrices, None)?;
    let (out, n) = (launch.out()?, launch.call.out.shape.n_elems() / 2);
    let key = PipelineKey::new(&HALVES, &[]).in_place(true);
    launch.for_each(&HALVES, key, &[out, out], &[n as u32], n, 256)
}
