//! FusedQKV: the norm before attention, and one product for Q, K and V.

use super::product::{Product, run};
use super::{BackendError, Launch};

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let norm = payload!(launch, FusedQKV).norm.clone();
    let (product, matrices) = Product::normed(launch, norm.as_ref())?;
    run(launch, &product, &matrices, None)
}
