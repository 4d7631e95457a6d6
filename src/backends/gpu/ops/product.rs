//! Products of activations with weights in rows: the kernels behind every op that multiplies with a matrix.

use std::sync::Arc;

use super::{
    ACTIVATION, BackendError, Binding, Bound, Dispatch, GRID, Launch, PipelineKey, RMS, SUM, Shader, read,
    write,
};
use crate::backends::gpu::device::Gpu;
use crate::backends::gpu::weights::Resident;
use crate::graph::RmsNorm;
use crate::tensor::DType;

/// Most tokens that the kernel for few of them takes.
const MAX_FEW: usize = 8;
/// Rows per workgroup of the kernel for few tokens, and of the other one; tokens per workgroup of the other
/// one.
const FEW_ROWS: usize = 8;
const TILE: usize = 64;

pub(in crate::backends::gpu) static FEW: Shader = Shader {
    name: "matvec",
    source: include_str!("matvec.wgsl"),
    snippets: &[GRID, ACTIVATIONS, ACTIVATION, RMS, SUM],
    constants: FEW_CONSTANTS,
    bindings: BINDINGS,
    params: PARAMS,
};

pub(in crate::backends::gpu) static MANY: Shader = Shader {
    name: "matmul",
    source: include_str!("matmul.wgsl"),
    snippets: &[GRID, ACTIVATIONS],
    constants: CONSTANTS,
    bindings: BINDINGS,
    params: PARAMS,
};

const ACTIVATIONS: &str = include_str!("../wgsl/activations.wgsl");

const CONSTANTS: &[&str] = &["N_IN: u32", "ROW_BYTES: u32", "ALIGNED: u32", "BIAS: u32", "ADD: u32"];

/// Those of both kernels, and those of the one for few tokens.
const FEW_CONSTANTS: &[&str] = &[
    "N_IN: u32",
    "ROW_BYTES: u32",
    "ALIGNED: u32",
    "BIAS: u32",
    "ADD: u32",
    "N_COLS: u32",
    "NORM: u32",
    "GATED: u32",
    "EPS: f32",
];

const BINDINGS: &[Binding] = &[
    read("residual", "f32"),
    read("x", "vec4<f32>"),
    read("weights", "u32"),
    read("norm", "f32"),
    read("bias", "f32"),
    write("out", "f32"),
];

const PARAMS: &[&str] = &["n_rows", "first_row", "out_row", "out_stride", "n_cols"];

/// What a product computes besides the sums.
pub(super) struct Product<'a> {
    /// `[n_in, n_cols] f32`.
    pub(super) x: Bound<'a>,
    pub(super) n_in: usize,
    pub(super) n_cols: usize,
    /// `[out_stride, n_cols] f32`.
    pub(super) out: Bound<'a>,
    pub(super) out_stride: usize,
    /// Weight and eps of an RMS norm of `x` that comes first. Like `gated`, for one token only.
    pub(super) norm: Option<(Arc<Resident>, f32)>,
    /// What is added at last, `[out_stride, n_cols] f32`, and whether it lies where the result goes.
    pub(super) residual: Option<(Bound<'a>, bool)>,
    /// The first half of the rows are gates of the second half, and the result is `silu(gate) * up`.
    pub(super) gated: bool,
}

/// Rows of one type that lie one after the other.
struct Rows {
    dtype: DType,
    row_bytes: usize,
    buffer: wgpu::Buffer,
    first_row: usize,
    n_rows: usize,
    /// Row of the result that the first one gives.
    out_row: usize,
}

impl<'a> Product<'a> {
    /// The plain product of source 0.
    pub(super) fn of(launch: &Launch<'a>) -> Result<Product<'a>, BackendError> {
        let [n_in, n_cols, ..] = launch.call.srcs[0].shape.0;
        let (x, out) = (launch.src_in_parts(0)?, launch.out_in_parts()?);
        let out_stride = launch.call.out.shape.row_len();
        Ok(Product { x, n_in, n_cols, out, out_stride, norm: None, residual: None, gated: false })
    }

    /// The product of source 0 after `norm`, whose weight is the node's first, and the matrices that follow
    /// it.
    pub(super) fn normed(
        launch: &Launch<'a>,
        norm: Option<&RmsNorm>,
    ) -> Result<(Product<'a>, Vec<Arc<Resident>>), BackendError> {
        launch.expect_apart(0)?;
        let norm = norm.map(|norm| Ok((launch.vector(0)?, norm.eps))).transpose()?;
        let matrices = usize::from(norm.is_some())..launch.call.node.meta.weights.len();
        let matrices = matrices.map(|index| launch.weight(index)).collect::<Result<_, _>>()?;
        Ok((Product { norm, ..Product::of(launch)? }, matrices))
    }
}

/// Records the product with `matrices`, whose rows are taken one after the other.
pub(super) fn run(
    launch: &mut Launch<'_>,
    product: &Product<'_>,
    matrices: &[Arc<Resident>],
    bias: Option<&Resident>,
) -> Result<(), BackendError> {
    // A binding spans a limited number of bytes, and the logits of many tokens may be more.
    let col_bytes = product.out_stride.max(product.n_in) * 4;
    let most = launch.gpu.max_value_bytes();
    let max_cols = most / col_bytes;
    if max_cols == 0 {
        return Err(launch.broken("bytes of a row", format!("at most {most}"), col_bytes));
    }
    for rows in contiguous(matrices) {
        for first in (0..product.n_cols).step_by(max_cols) {
            let n_cols = max_cols.min(product.n_cols - first);
            columns(launch, product, &rows, bias, first, n_cols)?;
        }
    }
    Ok(())
}

/// Whether all rows lie one after the other and have one type.
pub(super) fn is_contiguous(matrices: &[Arc<Resident>]) -> bool {
    contiguous(matrices).len() == 1
}

/// The rows of all matrices, joined where they lie one after the other.
fn contiguous(matrices: &[Arc<Resident>]) -> Vec<Rows> {
    let mut all: Vec<Rows> = Vec::new();
    let mut out_row = 0;
    for matrix in matrices {
        for part in &matrix.parts {
            let n_rows = part.rows.len();
            match all.last_mut() {
                Some(rows)
                    if (rows.dtype, rows.row_bytes) == (matrix.dtype, matrix.row_bytes())
                        && rows.buffer == part.buffer
                        && rows.first_row + rows.n_rows == part.first_row =>
                {
                    rows.n_rows += n_rows;
                }
                _ => all.push(Rows {
                    dtype: matrix.dtype,
                    row_bytes: matrix.row_bytes(),
                    buffer: part.buffer.clone(),
                    first_row: part.first_row,
                    n_rows,
                    out_row,
                }),
            }
            out_row += n_rows;
        }
    }
    all
}

/// Records the product of some tokens with some rows.
fn columns(
    launch: &mut Launch<'_>,
    product: &Product<'_>,
    rows: &Rows,
    bias: Option<&Resident>,
    first_col: usize,
    n_cols: usize,
) -> Result<(), BackendError> {
    let x = product.x.from(first_col * product.n_in);
    let out = product.out.from(first_col * product.out_stride);
    let is_aligned = product.n_in.is_multiple_of(4) && x.offset_bytes.is_multiple_of(16);
    let flags = Flags { is_aligned, has_bias: bias.is_some() };
    let (shader, key) = specialised(launch.gpu, product, rows, flags, n_cols);
    // Kernels that do not use one of these bind the weights in its place.
    let weights = Bound::whole(&rows.buffer);
    let residual = product.residual.as_ref().map_or(weights, |(b, _)| b.from(first_col * product.out_stride));
    let norm = product.norm.as_ref().map_or(weights, |(norm, _)| norm.bound());
    let buffers = [residual, x, weights, norm, bias.map_or(weights, Resident::bound), out];
    let n_rows = if product.gated { rows.n_rows / 2 } else { rows.n_rows };
    let params = [n_rows, rows.first_row, rows.out_row, product.out_stride, n_cols].map(|n| n as u32);
    let workgroups = match (n_cols <= MAX_FEW, product.gated) {
        (true, false) => launch.grid(n_rows.div_ceil(FEW_ROWS))?,
        (true, true) => launch.grid(n_rows.div_ceil(FEW_ROWS / 2))?,
        (false, _) => {
            let [x, y, _] = launch.grid(n_rows.div_ceil(TILE))?;
            [x, y, n_cols.div_ceil(TILE) as u32]
        }
    };
    let norm_bytes = product.norm.as_ref().map_or(0, |(norm, _)| norm.row_bytes());
    let bias_bytes = if bias.is_some() { rows.n_rows * 4 } else { 0 };
    let weight_bytes = rows.n_rows * rows.row_bytes + norm_bytes + bias_bytes;
    launch.recorder.add_macs((product.n_in * n_cols) as u64 * rows.n_rows as u64);
    launch.dispatch(&Dispatch { shader, key, buffers: &buffers, params: &params, workgroups, weight_bytes })
}

/// What a kernel is specialised for besides product and rows.
struct Flags {
    /// Rows of `x` are whole vectors of four that start at multiples of 16 bytes.
    is_aligned: bool,
    has_bias: bool,
}

/// The kernel for `n_cols` tokens.
fn specialised(
    gpu: &Gpu,
    product: &Product<'_>,
    rows: &Rows,
    flags: Flags,
    n_cols: usize,
) -> (&'static Shader, PipelineKey) {
    let mut constants = vec![
        product.n_in as u32,
        rows.row_bytes as u32,
        u32::from(flags.is_aligned),
        u32::from(flags.has_bias),
        u32::from(product.residual.is_some()),
    ];
    let in_place = product.residual.as_ref().is_some_and(|(_, in_place)| *in_place);
    let key = |shader, constants: &[u32]| {
        PipelineKey::new(shader, constants).reading(rows.dtype).in_place(in_place)
    };
    if n_cols > MAX_FEW {
        return (&MANY, key(&MANY, &constants));
    }
    constants.extend([
        n_cols.next_power_of_two() as u32,
        u32::from(product.norm.is_some()),
        u32::from(product.gated),
        product.norm.as_ref().map_or(0, |(_, eps)| eps.to_bits()),
    ]);
    (&FEW, key(&FEW, &constants).with_lanes(gpu.subgroup_size))
}
