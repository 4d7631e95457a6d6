//! Between f16 and f32.

use std::arch::x86_64::*;

use half::f16;

use super::entry::entry;
use super::lanes::{LANES, load, store};
use crate::vec_ops::scalar;

entry!(f16_to_f32(x: &[f16], out: &mut [f32]) = widen);
entry!(f32_to_f16(x: &[f32], out: &mut [f16]) = narrow);

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
