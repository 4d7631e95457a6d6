//! Float weights: eight partial sums per row and token, in one vector.

use std::arch::x86_64::*;

use super::lanes::add_lanes;
use crate::vec_ops::matmul::panel::{FLOAT_TOKENS, GROUP_ROWS, RowGroup};

/// How weights are stored.
pub(super) trait Element {
    const BYTES: usize;

    /// Eight elements from `p` on as f32.
    ///
    /// # Safety
    /// AVX2 and F16C exist; eight elements are readable.
    unsafe fn load(p: *const u8) -> __m256;
}

pub(super) struct F32;
impl Element for F32 {
    const BYTES: usize = 4;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(p: *const u8) -> __m256 {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe { _mm256_loadu_ps(p.cast()) }
    }
}

pub(super) struct F16;
impl Element for F16 {
    const BYTES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load(p: *const u8) -> __m256 {
        // SAFETY: the caller vouches for 16 bytes.
        _mm256_cvtph_ps(unsafe { _mm_loadu_si128(p.cast()) })
    }
}

pub(super) struct Bf16;
impl Element for Bf16 {
    const BYTES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(p: *const u8) -> __m256 {
        // SAFETY: the caller vouches for 16 bytes.
        let bits = _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(p.cast()) });
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
    }
}

pub(super) fn dot<E: Element>(
    rows: &RowGroup<'_>,
    tokens: &[&[f32]],
    out: &mut [[f32; GROUP_ROWS]; FLOAT_TOKENS],
) {
    let n_in = tokens[0].len();
    assert!(rows.iter().all(|row| row.len() == n_in * E::BYTES) && tokens.iter().all(|x| x.len() == n_in));
    // SAFETY: the lengths are as `tile` asks; the table with this function is only handed out where AVX2, FMA
    // and F16C exist.
    unsafe {
        match *tokens {
            [a] => group::<E, 8, 1>(rows, [a], out),
            [a, b] => group::<E, 4, 2>(rows, [a, b], out),
            [a, b, c] => group::<E, 2, 3>(rows, [a, b, c], out),
            [a, b, c, d] => group::<E, 2, 4>(rows, [a, b, c, d], out),
            _ => unreachable!("a tile has 1 to 4 tokens"),
        }
    }
}

/// Eight rows, `R` at a time, so that the partial sums fill the registers.
///
/// # Safety
/// AVX2, FMA and F16C exist; rows and tokens have the same number of elements.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn group<E: Element, const R: usize, const T: usize>(
    rows: &RowGroup<'_>,
    tokens: [&[f32]; T],
    out: &mut [[f32; GROUP_ROWS]; FLOAT_TOKENS],
) {
    for first in (0..GROUP_ROWS).step_by(R) {
        let mut some = [rows[first]; R];
        some.copy_from_slice(&rows[first..first + R]);
        // SAFETY: as for this function.
        let sums = unsafe { tile::<E, R, T>(some, tokens) };
        for t in 0..T {
            for r in 0..R {
                out[t][first + r] = add_lanes(sums[r][t]);
            }
        }
    }
}

/// # Safety
/// As for [`group`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<E: Element, const R: usize, const T: usize>(
    rows: [&[u8]; R],
    tokens: [&[f32]; T],
) -> [[__m256; T]; R] {
    let n_in = tokens[0].len();
    let n_whole = n_in / 8 * 8;
    let mut sums = [[_mm256_setzero_ps(); T]; R];
    for k in (0..n_whole).step_by(8) {
        let mut x = [_mm256_setzero_ps(); T];
        for t in 0..T {
            // SAFETY: k + 8 is at most n_in.
            x[t] = unsafe { _mm256_loadu_ps(tokens[t].as_ptr().add(k)) };
        }
        for r in 0..R {
            // SAFETY: as above.
            let w = unsafe { E::load(rows[r].as_ptr().add(k * E::BYTES)) };
            for t in 0..T {
                sums[r][t] = _mm256_fmadd_ps(w, x[t], sums[r][t]);
            }
        }
    }
    if n_whole < n_in {
        for r in 0..R {
            for t in 0..T {
                // SAFETY: both tails have n_in - n_whole elements.
                sums[r][t] = unsafe {
                    add_tail::<E>(&rows[r][n_whole * E::BYTES..], &tokens[t][n_whole..], sums[r][t])
                };
            }
        }
    }
    sums
}

/// The last fewer than eight elements, filled up with zeros.
///
/// # Safety
/// AVX2, FMA and F16C exist.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_tail<E: Element>(row: &[u8], x: &[f32], sum: __m256) -> __m256 {
    let (mut w, mut padded) = ([0; 32], [0.0; 8]);
    w[..row.len()].copy_from_slice(row);
    padded[..x.len()].copy_from_slice(x);
    // SAFETY: eight elements take at most 32 bytes.
    let (w, x) = unsafe { (E::load(w.as_ptr()), _mm256_loadu_ps(padded.as_ptr())) };
    _mm256_fmadd_ps(w, x, sum)
}
