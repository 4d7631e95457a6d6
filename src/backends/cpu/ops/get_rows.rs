//! GetRows.

use super::*;
use crate::vec_ops::scalar::dequant::dequantise_row;

/// Computes the node.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    match launch.call.node.meta.weights.is_empty() {
        true => from_value(launch),
        false => from_weight(launch),
    }
}

fn from_weight(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let table = launch.weight(0)?;
    let ids = row_ids(launch, 0, table.shape.n_rows())?;
    let out = launch.take_out()?;
    for_rows(launch.device, out, table.shape.row_len(), 1.0, |row, elements| {
        dequantise_row(table.dtype, table.row(ids[row] as usize), elements);
    });
    Ok(())
}

fn from_value(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let shape = launch.call.srcs[0].shape;
    let (ids, x) = (row_ids(launch, 1, shape.n_rows())?, launch.f32_src(0)?);
    let row_len = shape.row_len();
    let out = launch.take_out()?;
    for_rows(launch.device, out, row_len, 0.2, |row, elements| {
        let start = ids[row] as usize * row_len;
        elements.copy_from_slice(&x[start..start + row_len]);
    });
    Ok(())
}

/// Source `index`: rows that are all below `n_rows`.
fn row_ids<'a>(launch: &Launch<'a>, index: usize, n_rows: usize) -> Result<&'a [i32], BackendError> {
    let ids = launch.i32_src(index)?;
    match ids.iter().find(|id| usize::try_from(**id).map_or(true, |id| id >= n_rows)) {
        None => Ok(ids),
        Some(id) => Err(launch.broken("row", format!("0 to {}", n_rows.saturating_sub(1)), id)),
    }
}
