//! MatMul: a weight matrix times activations.

use super::product::{Product, run};
use super::{BackendError, Launch};

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, MatMul);
    launch.expect_apart(0)?;
    let matrix = launch.weight(0)?;
    let bias = if op.bias { Some(launch.vector(1)?) } else { None };
    let product = Product::of(launch)?;
    run(launch, &product, &[matrix], bias.as_deref())
}
