//! Softmax.

use super::*;

/// Computes the node, a row at a time.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, Softmax);
    let row_len = launch.call.out.shape.row_len();
    let InPlace { out, src } = launch.take_in_place()?;
    for_rows(launch.device, out, row_len, 0.6, |row, elements| {
        InPlace::load(src, row * row_len, elements);
        (launch.device.rows.softmax)(elements, op.scale);
    });
    Ok(())
}
