//! MatMul.

use super::*;
use crate::graph::ActivationPrecision;
use crate::vec_ops::matmul::{Activations, Input, MatmulError, matmul, needs_quantised};

/// Computes the node. Quantised weights meet a quantised source, which the matmuls after this one share.
pub(in crate::backends::cpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = payload!(launch, MatMul);
    let weight = launch.weight(0)?;
    let bias = if op.bias { Some(launch.f32_weight(1)?) } else { None };
    let x = launch.f32_src(0)?;
    let source = launch.call.srcs[0];
    let [n_in, n_tokens, ..] = source.shape.0;
    let out = launch.take_out()?;
    let device = launch.device;
    let (activations, scratch) = (&mut launch.caches.activations, &mut launch.caches.matmul);
    let input = match needs_quantised(weight.dtype) {
        true => activations
            .get_or_make(source, op.activations, |form| {
                let quantise = match op.activations {
                    ActivationPrecision::Bits8 => Activations::quantise,
                    ActivationPrecision::Bits16 => Activations::quantise_twice,
                };
                quantise(form, device.matmul, &device.pool, x, n_in, n_tokens)
            })
            .map(Input::Quantised),
        false => Ok(Input::F32(x)),
    };
    let done = input
        .and_then(|input| matmul(device.matmul, &device.pool, weight, bias, input, n_tokens, scratch, out));
    done.map_err(|error: MatmulError| launch.broken("product", "what the matmul needs", error))
}
