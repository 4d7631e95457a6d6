//! MatMulAdd: a product and the residual that it is added to.

use super::product::{Product, run};
use super::{BackendError, Launch};

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, MatMulAdd);
    launch.expect_apart(0)?;
    let matrix = launch.weight(0)?;
    let bias = if op.bias { Some(launch.vector(1)?) } else { None };
    let residual = Some((launch.src_in_parts(1)?, launch.is_in_place(1)?));
    let product = Product { residual, ..Product::of(launch)? };
    run(launch, &product, &[matrix], bias.as_deref())
}
