//! RmsNorm.

use super::*;

/// Computes the node, a row at a time.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, RmsNorm);
    let row_len = launch.call.out.shape.row_len();
    norm_rows(launch, row_len, op.eps)
}

/// Normalises every `row_len` elements with weight 0, `[row_len]`.
pub(super) fn norm_rows(launch: &mut Launch<'_>, row_len: usize, eps: f32) -> Result<(), BackendError> {
    let weight = launch.f32_weight(0)?;
    let InPlace { out, src } = launch.take_in_place()?;
    for_rows(launch.device, out, row_len, 0.2, |row, elements| {
        InPlace::load(src, row * row_len, elements);
        (launch.device.rows.rms_norm)(elements, weight, eps);
    });
    Ok(())
}
