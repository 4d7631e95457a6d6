//! Quantising activations.

use std::arch::x86_64::*;

use crate::vec_ops::matmul::panel::{ActivationBlock, BLOCK};

pub(in crate::vec_ops) fn quantise(x: &[f32], blocks: &mut [ActivationBlock]) {
    assert_eq!(x.len(), blocks.len() * BLOCK, "activations fill the blocks");
    for (x, block) in x.as_chunks::<BLOCK>().0.iter().zip(blocks) {
        // SAFETY: the table with this function is only handed out where AVX2 exists.
        *block = unsafe { quantise_block(x) };
    }
}

#[target_feature(enable = "avx2")]
fn quantise_block(x: &[f32; BLOCK]) -> ActivationBlock {
    let mut vectors = [_mm256_setzero_ps(); 4];
    for (vector, x) in vectors.iter_mut().zip(x.as_chunks::<8>().0) {
        // SAFETY: the array is eight floats.
        *vector = unsafe { _mm256_loadu_ps(x.as_ptr()) };
    }
    let x = vectors;
    let amax = largest_magnitude(&x);
    if !amax.is_finite() {
        return ActivationBlock { scale: f32::NAN, scaled_sum: f32::NAN, ..ActivationBlock::ZERO };
    }
    let inverse = 127.0 / amax;
    if !inverse.is_finite() {
        return ActivationBlock::ZERO;
    }
    let scale = amax / 127.0;
    let factor = _mm256_set1_ps(inverse);
    // The conversion rounds to nearest, ties to even.
    let mut ints = [_mm256_setzero_si256(); 4];
    for (ints, x) in ints.iter_mut().zip(x) {
        *ints = _mm256_cvtps_epi32(_mm256_mul_ps(x, factor));
    }
    let half_sums = [sum(_mm256_add_epi32(ints[0], ints[1])), sum(_mm256_add_epi32(ints[2], ints[3]))];
    let mut quants = [0; BLOCK];
    // SAFETY: the array is 32 bytes.
    unsafe { _mm256_storeu_si256(quants.as_mut_ptr().cast(), narrow(ints)) };
    let scaled_sum = (half_sums[0] + half_sums[1]) as f32 * scale;
    ActivationBlock { quants, scale, scaled_sum, half_sums: half_sums.map(|sum| sum as i16) }
}

/// Magnitudes compare like their bit patterns, with infinity and then NaN above all numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn largest_magnitude(x: &[__m256; 4]) -> f32 {
    let mask = _mm256_set1_epi32(0x7fff_ffff);
    let mut max = _mm256_setzero_si256();
    for &x in x {
        max = _mm256_max_epi32(max, _mm256_and_si256(_mm256_castps_si256(x), mask));
    }
    let max = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256::<1>(max));
    let max = _mm_max_epi32(max, _mm_shuffle_epi32::<0b01_00_11_10>(max));
    let max = _mm_max_epi32(max, _mm_shuffle_epi32::<0b10_11_00_01>(max));
    f32::from_bits(_mm_cvtsi128_si32(max) as u32)
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum(x: __m256i) -> i32 {
    let x = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
    let x = _mm_add_epi32(x, _mm_shuffle_epi32::<0b01_00_11_10>(x));
    let x = _mm_add_epi32(x, _mm_shuffle_epi32::<0b10_11_00_01>(x));
    _mm_cvtsi128_si32(x)
}

/// 32 integers of up to eight bits as bytes, in order. Packing works within 128-bit halves; the permutation
/// puts the quads right.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(x: [__m256i; 4]) -> __m256i {
    let low = _mm256_packs_epi32(x[0], x[1]);
    let high = _mm256_packs_epi32(x[2], x[3]);
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order)
}
