//! Between f32 and the formats of keys and values.

use std::arch::x86_64::*;

use half::f16;

use super::entry::entry;
use super::lanes::{LANES, load, store};
use crate::tensor::BlockQ8_0;
use crate::vec_ops::scalar;

entry!(f16_to_f32(x: &[f16], out: &mut [f32]) = widen);
entry!(f32_to_f16(x: &[f32], out: &mut [f16]) = narrow);
entry!(f32_to_q8_0(x: &[f32], out: &mut [BlockQ8_0]) = quantise);
entry!(i8_to_f32(quants: &[i8], scales: &[f32; 32], out: &mut [f32]) = dequantise);

#[target_feature(enable = "avx2,fma,f16c")]
fn widen(x: &[f16], out: &mut [f32]) {
    let n = x.len().min(out.len());
    let whole = n - n % LANES;
    for (x, out) in x[..whole].chunks_exact(LANES).zip(out.chunks_exact_mut(LANES)) {
        // SAFETY: the slice has 8 elements of 2 bytes.
        let halves = unsafe { _mm_loadu_si128(x.as_ptr().cast()) };
        store(out, _mm256_cvtph_ps(halves));
    }
    if whole < n {
        scalar::convert::f16_to_f32(&x[whole..n], &mut out[whole..n]);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn narrow(x: &[f32], out: &mut [f16]) {
    let n = x.len().min(out.len());
    let whole = n - n % LANES;
    for (x, out) in x[..whole].chunks_exact(LANES).zip(out.chunks_exact_mut(LANES)) {
        let halves = _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(load(x));
        // SAFETY: the slice has 8 elements of 2 bytes.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), halves) };
    }
    if whole < n {
        scalar::convert::f32_to_f16(&x[whole..n], &mut out[whole..n]);
    }
}

/// The scalar code, which the compiler makes vectors of where it may use them.
#[target_feature(enable = "avx2,fma,f16c")]
fn quantise(x: &[f32], out: &mut [BlockQ8_0]) {
    scalar::convert::f32_to_q8_0(x, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn dequantise(quants: &[i8], scales: &[f32; 32], out: &mut [f32]) {
    let n = quants.len().min(out.len());
    let whole = n - n % 32;
    for (quants, out) in quants[..whole].chunks_exact(32).zip(out.chunks_exact_mut(32)) {
        let lanes = quants.chunks_exact(LANES).zip(scales.chunks_exact(LANES));
        for ((quants, scales), out) in lanes.zip(out.chunks_exact_mut(LANES)) {
            // SAFETY: the slice has 8 bytes.
            let bytes = unsafe { _mm_loadl_epi64(quants.as_ptr().cast()) };
            let x = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
            store(out, _mm256_mul_ps(x, load(scales)));
        }
    }
    if whole < n {
        scalar::convert::i8_to_f32(&quants[whole..n], scales, &mut out[whole..n]);
    }
}
