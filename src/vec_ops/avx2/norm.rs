//! RMS norm and softmax of one row.

use std::arch::x86_64::*;

use super::elementwise::{dot_product, scale_lanewise};
use super::entry::entry;
use super::lanes::{LANES, add_lanes, exp, load, load_partial, max_lane, store, store_partial, zip_map};

entry!(rms_norm(x: &mut [f32], weight: &[f32], eps: f32) = rms_norm_row);
entry!(softmax(x: &mut [f32], scale: f32) = softmax_row);

#[target_feature(enable = "avx2,fma,f16c")]
fn rms_norm_row(x: &mut [f32], weight: &[f32], eps: f32) {
    let mean = dot_product(x, x) / x.len() as f32;
    let factor = _mm256_set1_ps(1.0 / (mean + eps).sqrt());
    zip_map(x, weight, |x, w| _mm256_mul_ps(_mm256_mul_ps(x, factor), w));
}

#[target_feature(enable = "avx2,fma,f16c")]
fn softmax_row(x: &mut [f32], scale: f32) {
    scale_lanewise(x, scale);
    let mut maxima = _mm256_set1_ps(f32::NEG_INFINITY);
    let chunks = x.chunks_exact(LANES);
    let tail_max =
        chunks.remainder().iter().fold(f32::NEG_INFINITY, |max, x| if *x > max { *x } else { max });
    for x in chunks {
        // The second operand is the result if one is NaN: maxima stay numbers.
        maxima = _mm256_max_ps(load(x), maxima);
    }
    let max = max_lane(maxima).max(tail_max);
    let sum = exp_and_sum(x, max);
    scale_lanewise(x, 1.0 / sum);
}

/// `x[i] = exp(x[i] - max)`; returns the sum.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn exp_and_sum(x: &mut [f32], max: f32) -> f32 {
    let max = _mm256_set1_ps(max);
    let mut sums = _mm256_setzero_ps();
    let mut chunks = x.chunks_exact_mut(LANES);
    for x in &mut chunks {
        let e = exp(_mm256_sub_ps(load(x), max));
        store(x, e);
        sums = _mm256_add_ps(sums, e);
    }
    let rest = chunks.into_remainder();
    let e = exp(_mm256_sub_ps(load_partial(rest), max));
    store_partial(rest, e);
    add_lanes(_mm256_add_ps(sums, load_partial(rest)))
}
