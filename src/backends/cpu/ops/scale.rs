//! Scale.

use super::*;

/// Computes the node.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, Scale);
    let scale = launch.device.rows.scale;
    elementwise::unary(launch, 0.2, |part| scale(part, op.factor))
}
