//! GetRows: rows of a weight or of a value.

use super::{BackendError, Bound, Dispatch, GRID, Launch, PipelineKey, Shader, read, write};

pub(in crate::backends::gpu) static OF_WEIGHT: Shader = Shader {
    name: "get_rows_weight",
    source: include_str!("get_rows_weight.wgsl"),
    snippets: &[GRID],
    constants: &["N_IN: u32", "ROW_BYTES: u32"],
    bindings: &[read("ids", "i32"), read("weights", "u32"), write("out", "f32")],
    params: &["n_lines", "first_row", "part_row", "n_rows", "n_all", "nan"],
};

pub(in crate::backends::gpu) static OF_VALUE: Shader = Shader {
    name: "get_rows_value",
    source: include_str!("get_rows_value.wgsl"),
    snippets: &[GRID],
    constants: &[],
    bindings: &[read("x", "f32"), read("ids", "i32"), write("out", "f32")],
    params: &["n_lines", "row_elems", "n_rows", "nan"],
};

/// Passed as data, since compilers may take a constant NaN for granted or away.
const NAN: u32 = 0x7fc0_0000;

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    match launch.call.node.meta.weights.is_empty() {
        true => rows_of_value(launch),
        false => rows_of_weight(launch),
    }
}

fn rows_of_weight(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    launch.expect_apart(0)?;
    let weight = launch.weight(0)?;
    let (n_in, n_lines) = (weight.shape.row_len(), launch.call.out.shape.n_rows());
    let (ids, out) = (launch.src(0)?, launch.out()?);
    for part in &weight.parts {
        let key =
            PipelineKey::new(&OF_WEIGHT, &[n_in as u32, weight.row_bytes() as u32]).reading(weight.dtype);
        let (n_rows, n_all) = (part.rows.len() as u32, weight.shape.n_rows() as u32);
        let params = [n_lines as u32, part.first_row as u32, part.rows.start as u32, n_rows, n_all, NAN];
        let workgroups = launch.grid((n_lines * n_in.div_ceil(16)).div_ceil(64))?;
        launch.dispatch(&Dispatch {
            shader: &OF_WEIGHT,
            key,
            buffers: &[ids, Bound::whole(&part.buffer), out],
            params: &params,
            workgroups,
            weight_bytes: if part.rows.start == 0 { n_lines * weight.row_bytes() } else { 0 },
        })?;
    }
    Ok(())
}

fn rows_of_value(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    launch.expect_apart(0)?;
    launch.expect_apart(1)?;
    let (n_lines, row_elems) = (launch.call.out.shape.n_rows(), launch.call.out.shape.row_len());
    let n_rows = launch.call.srcs[0].shape.n_rows();
    let buffers = [launch.src(0)?, launch.src(1)?, launch.out()?];
    let params = [n_lines as u32, row_elems as u32, n_rows as u32, NAN];
    let key = PipelineKey::new(&OF_VALUE, &[]);
    launch.for_each(&OF_VALUE, key, &buffers, &params, n_lines * row_elems, 256)
}
