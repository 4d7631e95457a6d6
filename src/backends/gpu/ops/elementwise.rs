//! Add, Mul, Scale, Silu, SwiGLU: one element at a time.

use super::{ACTIVATION, BackendError, Binding, GRID, Launch, PipelineKey, Shader, read, write};

const SOURCE: &str = include_str!("elementwise.wgsl");

/// A kernel whose elements are `combine(a, b)`.
const fn of_two(name: &'static str, snippets: &'static [&'static str]) -> Shader {
    const BINDINGS: &[Binding] = &[read("a", "f32"), read("b", "f32"), write("out", "f32")];
    Shader { name, source: SOURCE, snippets, constants: &[], bindings: BINDINGS, params: &["n"] }
}

/// A kernel whose elements are `combine(a, 0)`.
const fn of_one(name: &'static str, snippets: &'static [&'static str]) -> Shader {
    const BINDINGS: &[Binding] = &[read("a", "f32"), write("out", "f32")];
    Shader { name, source: SOURCE, snippets, constants: &["FACTOR: f32"], bindings: BINDINGS, params: &["n"] }
}

const ONE: &str = "fn b_load(i: u32) -> f32 { return 0.0; }\n";

pub(in crate::backends::gpu) static ADD: Shader =
    of_two("add", &[GRID, "fn combine(a: f32, b: f32) -> f32 { return a + b; }\n"]);
pub(in crate::backends::gpu) static MUL: Shader =
    of_two("mul", &[GRID, "fn combine(a: f32, b: f32) -> f32 { return a * b; }\n"]);
pub(in crate::backends::gpu) static SWIGLU: Shader =
    of_two("swiglu", &[GRID, ACTIVATION, "fn combine(a: f32, b: f32) -> f32 { return swiglu(a, b); }\n"]);
pub(in crate::backends::gpu) static SCALE: Shader =
    of_one("scale", &[GRID, ONE, "fn combine(a: f32, b: f32) -> f32 { return a * FACTOR; }\n"]);
pub(in crate::backends::gpu) static SILU: Shader =
    of_one("silu", &[GRID, ONE, ACTIVATION, "fn combine(a: f32, b: f32) -> f32 { return silu(a); }\n"]);

pub(in crate::backends::gpu) fn add(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    pair(launch, &ADD)
}

pub(in crate::backends::gpu) fn mul(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    pair(launch, &MUL)
}

pub(in crate::backends::gpu) fn swiglu(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    pair(launch, &SWIGLU)
}

pub(in crate::backends::gpu) fn silu(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    one(launch, &SILU, 1.0)
}

pub(in crate::backends::gpu) fn scale(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let factor = payload!(launch, Scale).factor;
    one(launch, &SCALE, factor)
}

fn pair(launch: &mut Launch<'_>, shader: &'static Shader) -> Result<(), BackendError> {
    launch.expect_apart(1)?;
    let key = PipelineKey::new(shader, &[]).in_place(launch.is_in_place(0)?);
    let n = launch.call.out.shape.n_elems();
    let buffers = [launch.src(0)?, launch.src(1)?, launch.out()?];
    launch.for_each(shader, key, &buffers, &[n as u32], n, 256)
}

fn one(launch: &mut Launch<'_>, shader: &'static Shader, factor: f32) -> Result<(), BackendError> {
    let key = PipelineKey::new(shader, &[factor.to_bits()]).in_place(launch.is_in_place(0)?);
    let n = launch.call.out.shape.n_elems();
    let buffers = [launch.src(0)?, launch.out()?];
    launch.for_each(shader, key, &buffers, &[n as u32], n, 256)
}
