//! SwiGLU.

use super::*;

/// Computes the node.
pub(in crate::backends::cpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    elementwise::binary(launch, 0.6, launch.device.rows.swiglu)
}
