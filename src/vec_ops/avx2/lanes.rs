//! Vectors of 8 lanes: loads and stores of whole and partial vectors, sums, the exponential function.

use std::arch::x86_64::*;

use crate::vec_ops::scalar::exp::{LN2_HIGH, LN2_LOW, MAX, MIN, POLYNOMIAL};

/// Elements of a vector.
pub(super) const LANES: usize = 8;

/// The first 8 elements of `x`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn load(x: &[f32]) -> __m256 {
    let x = &x[..LANES];
    // SAFETY: the slice has 8 elements.
    unsafe { _mm256_loadu_ps(x.as_ptr()) }
}

/// Writes the first 8 elements of `x`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn store(x: &mut [f32], v: __m256) {
    let x = &mut x[..LANES];
    // SAFETY: the slice has 8 elements.
    unsafe { _mm256_storeu_ps(x.as_mut_ptr(), v) }
}

/// Up to 8 elements, then zeros.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn load_partial(x: &[f32]) -> __m256 {
    let mut lanes = [0.0; LANES];
    lanes[..x.len()].copy_from_slice(x);
    load(&lanes)
}

/// Writes the first `x.len()` lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn store_partial(x: &mut [f32], v: __m256) {
    let mut lanes = [0.0; LANES];
    store(&mut lanes, v);
    x.copy_from_slice(&lanes[..x.len()]);
}

/// `x[i] = f(x[i])`; every element goes through the same operations, those of an incomplete vector too.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn map(x: &mut [f32], f: impl Fn(__m256) -> __m256) {
    let mut chunks = x.chunks_exact_mut(LANES);
    for x in &mut chunks {
        let v = f(load(x));
        store(x, v);
    }
    let rest = chunks.into_remainder();
    if !rest.is_empty() {
        let v = f(load_partial(rest));
        store_partial(rest, v);
    }
}

/// `x[i] = f(x[i], y[i])`, as [`map`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn zip_map(x: &mut [f32], y: &[f32], f: impl Fn(__m256, __m256) -> __m256) {
    let n = x.len().min(y.len());
    let (x, y) = (&mut x[..n], &y[..n]);
    let (mut xs, ys) = (x.chunks_exact_mut(LANES), y.chunks_exact(LANES));
    let y_rest = ys.remainder();
    for (x, y) in (&mut xs).zip(ys) {
        let v = f(load(x), load(y));
        store(x, v);
    }
    let rest = xs.into_remainder();
    if !rest.is_empty() {
        let v = f(load_partial(rest), load_partial(y_rest));
        store_partial(rest, v);
    }
}

/// The sum of 8 lanes, halving the number of lanes at each step.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn add_lanes(v: __m256) -> f32 {
    let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    let v = _mm_add_ss(v, _mm_movehdup_ps(v));
    _mm_cvtss_f32(v)
}

/// The largest of 8 lanes, none of which is NaN.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn max_lane(v: __m256) -> f32 {
    let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
    let v = _mm_max_ss(v, _mm_movehdup_ps(v));
    _mm_cvtss_f32(v)
}

/// `e^x` as the scalar `exp`, with fused products and sums.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn exp(x: __m256) -> __m256 {
    // Both instructions return their second operand if one is NaN.
    let x = _mm256_min_ps(_mm256_set1_ps(MAX), _mm256_max_ps(_mm256_set1_ps(MIN), x));
    let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm256_mul_ps(
        x,
        _mm256_set1_ps(std::f32::consts::LOG2_E),
    ));
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_HIGH), x);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_LOW), r);
    let mut p = _mm256_set1_ps(POLYNOMIAL[0]);
    for c in &POLYNOMIAL[1..] {
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(*c));
    }
    let e = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0));
    let n = _mm256_cvtps_epi32(n);
    let half = _mm256_srai_epi32::<1>(n);
    let e = _mm256_mul_ps(e, power_of_two(half));
    _mm256_mul_ps(e, power_of_two(_mm256_sub_epi32(n, half)))
}

/// `e^x` of one element, with the bits that [`exp`] gives it.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn exp_of(x: f32) -> f32 {
    _mm256_cvtss_f32(exp(_mm256_set1_ps(x)))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn power_of_two(n: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))))
}
