//! Matmul kernels for AVX2: the table, and the small kernel of quantised types.

use std::arch::x86_64::*;

use super::matmul_float as float;
use super::matmul_packed::{self as packed, Packed};
use super::matmul_quantise::quantise;
use super::matmul_unpack as unpack;
use super::matmul_unpack_k as unpack_k;
use crate::vec_ops::Isa;
use crate::vec_ops::matmul::panel::{
    ActivationBlock, CentredFiveBit, CentredNibble, FiveBit, Form, GROUP_ROWS, Mins, Nibble, PanelBlock,
    SignedByte, SixBit, ThreeBit, Tile, TinyFloat, TwoBit,
};
use crate::vec_ops::matmul::{QuantKernel, Table};

// Every function in this table assumes AVX2, FMA and F16C; `matmul::table` hands the table out only where
// they exist.
pub(in crate::vec_ops) static TABLE: Table = Table {
    isa: Isa::Avx2,
    quantise,
    f32: float::dot::<float::F32>,
    f16: float::dot::<float::F16>,
    bf16: float::dot::<float::Bf16>,
    q4_0: kernel::<unpack::Q4_0, CentredNibble>(),
    q4_1: kernel::<unpack::Q4_1, Nibble>(),
    q5_0: kernel::<unpack::Q5_0, CentredFiveBit>(),
    q5_1: kernel::<unpack::Q5_1, FiveBit>(),
    q8_0: kernel::<unpack::Q8_0, SignedByte>(),
    q2_k: kernel::<unpack_k::Q2K, TwoBit>(),
    q3_k: kernel::<unpack_k::Q3K, ThreeBit>(),
    q4_k: kernel::<unpack_k::Q4K, Nibble>(),
    q5_k: kernel::<unpack_k::Q5K, FiveBit>(),
    q6_k: kernel::<unpack_k::Q6K, SixBit>(),
    iq4_nl: kernel::<unpack::IQ4NL, SignedByte>(),
    iq4_xs: kernel::<unpack_k::IQ4XS, SignedByte>(),
    mxfp4: kernel::<unpack::MXFP4, TinyFloat>(),
};

const fn kernel<P: Packed, F: Form>() -> QuantKernel {
    QuantKernel { unpack: packed::unpack::<P>, dot: dot::<F>, single: Some(packed::single::<P, F>) }
}

/// One group and four tokens at a time: with more, sums and factors are more than there are registers.
fn dot<F: Form>(panels: &[&[PanelBlock]], tokens: &[&[ActivationBlock]], tile: &mut Tile) {
    for (panel, sums) in panels.iter().zip(tile) {
        for (tokens, sums) in tokens.chunks(4).zip(sums.chunks_mut(4)) {
            // SAFETY: the table with this function is only handed out where AVX2 and FMA exist.
            unsafe {
                match *tokens {
                    [a] => dot_tile::<F, 1>(panel, [a], sums),
                    [a, b] => dot_tile::<F, 2>(panel, [a, b], sums),
                    [a, b, c] => dot_tile::<F, 3>(panel, [a, b, c], sums),
                    [a, b, c, d] => dot_tile::<F, 4>(panel, [a, b, c, d], sums),
                    _ => unreachable!("a chunk has 1 to 4 tokens"),
                }
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn dot_tile<F: Form, const T: usize>(
    panel: &[PanelBlock],
    tokens: [&[ActivationBlock]; T],
    sums: &mut [[f32; GROUP_ROWS]],
) {
    assert!(tokens.iter().all(|a| a.len() == panel.len()), "weights and activations have as many blocks");
    let mut lanes = [_mm256_setzero_ps(); T];
    for t in 0..T {
        lanes[t] = load_ps(&sums[t]);
    }
    for (i, w) in panel.iter().enumerate() {
        let mut a = [&ActivationBlock::ZERO; T];
        for t in 0..T {
            // SAFETY: every token has as many blocks as the panel.
            a[t] = unsafe { tokens[t].get_unchecked(i) };
        }
        let products = products::<F, T>(w, &a);
        for t in 0..T {
            lanes[t] = add_block::<F>(lanes[t], products[t], w, a[t]);
        }
    }
    for t in 0..T {
        // SAFETY: the innermost array is eight floats.
        unsafe { _mm256_storeu_ps(sums[t].as_mut_ptr(), lanes[t]) };
    }
}

/// The float part of one step, given the block's integer sums.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(in crate::vec_ops) fn add_block<F: Form>(
    sum: __m256,
    products: __m256i,
    w: &PanelBlock,
    a: &ActivationBlock,
) -> __m256 {
    let scale = _mm256_set1_ps(a.scale);
    let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(products), scale);
    let sum = _mm256_fmadd_ps(scaled, load_ps(&w.scale), sum);
    match F::MINS {
        Mins::None => sum,
        Mins::PerBlock => _mm256_fnmadd_ps(_mm256_set1_ps(a.scaled_sum), load_ps(&w.min), sum),
        Mins::PerHalf => {
            let mins = _mm256_madd_epi16(load_pairs(&w.half_mins), half_sums(a));
            let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(mins), scale);
            _mm256_fnmadd_ps(scaled, load_ps(&w.min), sum)
        }
    }
}

/// What the integer sums of a block start from: minus the offset times the activations.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(in crate::vec_ops) fn offset_term<F: Form>(offset: i16, w: &PanelBlock, a: &ActivationBlock) -> __m256i {
    if offset == 0 {
        return _mm256_setzero_si256();
    }
    let factor = _mm256_set1_epi16(-offset);
    let factors =
        if F::HALF_SCALES { _mm256_mullo_epi16(load_pairs(&w.half_scales), factor) } else { factor };
    _mm256_madd_epi16(factors, half_sums(a))
}

/// The exact integer sums of a block per token.
///
/// Products of unsigned weights and signed activations are added in pairs to 16 bits, and so many of these
/// pairs are added in 16 bits as the largest weight allows. Signed weights give their sign to the activation;
/// a pair then just fits: `2 * 128 * 127 < 2^15`.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn products<F: Form, const T: usize>(w: &PanelBlock, a: &[&ActivationBlock; T]) -> [__m256i; T] {
    let mut sums = [_mm256_setzero_si256(); T];
    for t in 0..T {
        sums[t] = offset_term::<F>(F::OFFSET, w, a[t]);
    }
    let n_in_16_bits = const { n_in_16_bits::<F>() };
    for first in (0..8).step_by(n_in_16_bits) {
        let mut pairs = [_mm256_setzero_si256(); T];
        for k in first..first + n_in_16_bits {
            let quants = load_quants(w, k);
            for t in 0..T {
                let pair = multiply::<F>(quants, activation_quad(a[t], k));
                pairs[t] = if k == first { pair } else { _mm256_add_epi16(pairs[t], pair) };
            }
        }
        let factor = pair_factor::<F>(w, first / 4);
        for t in 0..T {
            sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(pairs[t], factor));
        }
    }
    sums
}

/// How many sums of two products fit 16 bits, as a divisor of the quads of a block or of half a block.
const fn n_in_16_bits<F: Form>() -> usize {
    let pairs = i16::MAX as i32 / (2 * 127 * F::MAX);
    let most = if F::HALF_SCALES { 4 } else { 8 };
    let mut n = most;
    while n as i32 > pairs {
        n /= 2;
    }
    n
}

#[inline]
#[target_feature(enable = "avx2")]
fn multiply<F: Form>(weights: __m256i, activations: __m256i) -> __m256i {
    if F::SIGNED {
        _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(activations, weights))
    } else {
        _mm256_maddubs_epi16(weights, activations)
    }
}

/// What sums in 16 bits are multiplied with on the way to 32: the scale of the half they come from, or one.
#[inline]
#[target_feature(enable = "avx2")]
fn pair_factor<F: Form>(w: &PanelBlock, half: usize) -> __m256i {
    if !F::HALF_SCALES {
        return _mm256_set1_epi16(1);
    }
    let pairs = load_pairs(&w.half_scales);
    if half == 0 {
        let low = _mm256_slli_epi32::<16>(pairs);
        _mm256_or_si256(_mm256_srli_epi32::<16>(low), low)
    } else {
        let high = _mm256_srli_epi32::<16>(pairs);
        _mm256_or_si256(_mm256_slli_epi32::<16>(high), high)
    }
}

/// Quad `k` of eight rows.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::vec_ops) fn load_quants(w: &PanelBlock, k: usize) -> __m256i {
    // SAFETY: the referenced array is 32 bytes.
    unsafe { _mm256_loadu_si256(w.quants[k].as_ptr().cast()) }
}

/// Quad `k` of one token, in every lane.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::vec_ops) fn activation_quad(a: &ActivationBlock, k: usize) -> __m256i {
    _mm256_set1_epi32(quad(a, k))
}

/// Quad `k` of one token.
#[inline(always)]
pub(in crate::vec_ops) fn quad(a: &ActivationBlock, k: usize) -> i32 {
    debug_assert!(k < 8);
    // SAFETY: 4 * k + 4 is at most the 32 quants of the block.
    unsafe { a.quants.as_ptr().add(4 * k).cast::<i32>().read_unaligned() }
}

#[inline]
#[target_feature(enable = "avx2")]
fn half_sums(a: &ActivationBlock) -> __m256i {
    _mm256_set1_epi32(half_sum_pair(a))
}

/// Both half sums of one token.
#[inline(always)]
pub(in crate::vec_ops) fn half_sum_pair(a: &ActivationBlock) -> i32 {
    // SAFETY: two i16 are four bytes.
    unsafe { a.half_sums.as_ptr().cast::<i32>().read_unaligned() }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::vec_ops) fn load_ps(values: &[f32; 8]) -> __m256 {
    // SAFETY: the array is 32 bytes.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::vec_ops) fn load_pairs(pairs: &[[i16; 2]; 8]) -> __m256i {
    // SAFETY: the array is 32 bytes.
    unsafe { _mm256_loadu_si256(pairs.as_ptr().cast()) }
}
