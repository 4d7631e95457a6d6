//! QkNorm.

use super::*;

/// Computes the node, a head at a time.
pub(crate) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, QkNorm);
    rms_norm::norm_rows(launch, op.head_dim, op.eps)
}
