//! Permute.

use super::*;

/// Computes the node, a row of the result at a time.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, Permute);
    let x = launch.f32_src(0)?;
    let [s0, s1, s2, _] = launch.call.srcs[0].shape.0;
    let source_strides = [1, s0, s0 * s1, s0 * s1 * s2];
    // How far apart in the source neighbours along each dimension of the result are.
    let strides = op.axes.map(|axis| source_strides[axis]);
    let [n0, n1, n2, _] = launch.call.out.shape.0;
    let out = launch.take_out()?;
    for_rows(launch.device, out, n0, 0.5, |row, elements| {
        let (i1, i2, i3) = (row % n1, row / n1 % n2, row / n1 / n2);
        let first = i1 * strides[1] + i2 * strides[2] + i3 * strides[3];
        for (i, element) in elements.iter_mut().enumerate() {
            *element = x[first + i * strides[0]];
        }
    });
    Ok(())
}
