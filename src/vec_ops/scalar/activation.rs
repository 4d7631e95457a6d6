//! SiLU, alone and gated.

use super::exp::exp;

/// `x[i] = x[i] * sigmoid(x[i])`
pub(in crate::vec_ops) fn silu(x: &mut [f32]) {
    for x in x {
        *x = silu_of(*x);
    }
}

/// `gate[i] = silu(gate[i]) * up[i]`, rounded as [`silu`] followed by a product.
pub(in crate::vec_ops) fn swiglu(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = silu_of(*gate) * up;
    }
}

fn silu_of(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}
