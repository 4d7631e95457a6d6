//! Between f32 and the formats of keys and values.

use half::f16;

use crate::tensor::{BlockQ8_0, Half, QK};

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

/// Quantises rows of whole blocks.
#[inline(always)]
pub(in crate::vec_ops) fn f32_to_q8_0(x: &[f32], out: &mut [BlockQ8_0]) {
    assert_eq!(x.len(), out.len() * QK, "elements fill the blocks");
    for (x, block) in x.as_chunks::<QK>().0.iter().zip(out) {
        *block = block_q8_0(x);
    }
}

/// One block: `d` is the largest magnitude over 127, an element `x / d` rounded to nearest, ties away from
/// zero.
#[inline(always)]
fn block_q8_0(x: &[f32; QK]) -> BlockQ8_0 {
    // Magnitudes compare like their bit patterns, with infinity and then NaN above all numbers.
    let amax = f32::from_bits(x.iter().map(|x| x.abs().to_bits()).max().unwrap_or(0));
    if !amax.is_finite() {
        return BlockQ8_0 { d: Half::from_f32(f32::NAN), qs: [0; QK] };
    }
    let d = amax / 127.0;
    if d == 0.0 {
        return BlockQ8_0 { d: Half::from_f32(0.0), qs: [0; QK] };
    }
    BlockQ8_0 { d: Half::from_f32(d), qs: x.map(|x| (x / d).round() as i8) }
}

/// `out[i] = quants[i] * scales[i % 32]`.
pub(in crate::vec_ops) fn i8_to_f32(quants: &[i8], scales: &[f32; 32], out: &mut [f32]) {
    for (quants, out) in quants.chunks(32).zip(out.chunks_mut(32)) {
        for ((out, quant), scale) in out.iter_mut().zip(quants).zip(scales) {
            *out = f32::from(*quant) * scale;
        }
    }
}
