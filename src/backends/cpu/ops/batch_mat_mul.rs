//! BatchMatMul.

use super::*;

/// Computes the node, a row of the result at a time.
pub(in crate::backends::cpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let (a, b) = (launch.f32_src(0)?, launch.f32_src(1)?);
    let n_in = launch.call.srcs[0].shape.row_len();
    let [n_out, n_rows, ..] = launch.call.out.shape.0;
    let dot = launch.device.rows.dot;
    let out = launch.take_out()?;
    for_rows(launch.device, out, n_out, 0.1 * n_in as f32, |row, elements| {
        let matrix = row / n_rows * n_out * n_in;
        let b = &b[row * n_in..(row + 1) * n_in];
        for (i, element) in elements.iter_mut().enumerate() {
            let start = matrix + i * n_in;
            *element = dot(&a[start..start + n_in], b);
        }
    });
    Ok(())
}
