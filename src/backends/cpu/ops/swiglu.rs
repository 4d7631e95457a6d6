//! SwiGLU.

use super::*;

/// Computes the node.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    elementwise::binary(launch, 0.6, launch.device.rows.swiglu)
}
