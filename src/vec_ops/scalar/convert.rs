//! Between f16 and f32.

use half::f16;

/// `out[i] = x[i]`, exactly.
pub(in crate::vec_ops) fn f16_to_f32(x: &[f16], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = x.to_f32();
    }
}

/// `out[i] = x[i]`, rounded to nearest, ties to even; too large values become infinite.
pub(in crate::vec_ops) fn f32_to_f16(x: &[f32], out: &mut [f16]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = f16::from_f32(*x);
    }
}
