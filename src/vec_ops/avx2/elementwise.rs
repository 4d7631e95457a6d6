//! Sums and products, element by element, and dot products.

use std::arch::x86_64::*;

use super::entry::entry;
use super::lanes::{LANES, add_lanes, load, load_partial, map, zip_map};

entry!(add(acc: &mut [f32], b: &[f32]) = add_lanewise);
entry!(mul(acc: &mut [f32], b: &[f32]) = mul_lanewise);
entry!(scale(x: &mut [f32], factor: f32) = scale_lanewise);
entry!(dot(a: &[f32], b: &[f32]) -> f32 = dot_product);

#[target_feature(enable = "avx2,fma,f16c")]
fn add_lanewise(acc: &mut [f32], b: &[f32]) {
    zip_map(acc, b, |a, b| _mm256_add_ps(a, b));
}

#[target_feature(enable = "avx2,fma,f16c")]
fn mul_lanewise(acc: &mut [f32], b: &[f32]) {
    zip_map(acc, b, |a, b| _mm256_mul_ps(a, b));
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn scale_lanewise(x: &mut [f32], factor: f32) {
    let factor = _mm256_set1_ps(factor);
    map(x, |x| _mm256_mul_ps(x, factor));
}

/// Four vectors of partial sums hide the latency of the fused operations.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dot_product(a: &[f32], b: &[f32]) -> f32 {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut sums = [_mm256_setzero_ps(); 4];
    let (wide_a, wide_b) = (a.chunks_exact(4 * LANES), b.chunks_exact(4 * LANES));
    let (rest_a, rest_b) = (wide_a.remainder(), wide_b.remainder());
    for (a, b) in wide_a.zip(wide_b) {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = _mm256_fmadd_ps(load(&a[i * LANES..]), load(&b[i * LANES..]), *sum);
        }
    }
    for (i, (a, b)) in rest_a.chunks(LANES).zip(rest_b.chunks(LANES)).enumerate() {
        sums[i] = _mm256_fmadd_ps(load_partial(a), load_partial(b), sums[i]);
    }
    add_lanes(_mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])))
}
