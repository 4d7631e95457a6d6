//! Sixteen rows at once: two groups side by side in vectors of 512 bits, which meet up to eight tokens.

use std::arch::x86_64::*;

use crate::vec_ops::avx2::matmul::{half_sum_pair, load_pairs, load_ps, load_quants, quad};
use crate::vec_ops::matmul::panel::{ActivationBlock, Form, GROUP_ROWS, Mins, PanelBlock, TILE_TOKENS, Tile};

// No closures around intrinsics here: a closure inside the standard library's generic code has other target
// features and need not be inlined.

/// A block of sixteen rows.
type Pair<'a> = [&'a PanelBlock; 2];

/// Takes as many tokens at once as there are, in powers of two. A group alone is its own neighbour.
pub(super) fn dot<F: Form>(panels: &[&[PanelBlock]], tokens: &[&[ActivationBlock]], tile: &mut Tile) {
    let start = dot_by::<F, 8>(panels, tokens, tile, 0);
    let start = dot_by::<F, 4>(panels, tokens, tile, start);
    let start = dot_by::<F, 2>(panels, tokens, tile, start);
    dot_by::<F, 1>(panels, tokens, tile, start);
}

/// Meets tokens from `start` on, `T` at once, and returns where fewer are left.
fn dot_by<F: Form, const T: usize>(
    panels: &[&[PanelBlock]],
    tokens: &[&[ActivationBlock]],
    tile: &mut Tile,
    mut start: usize,
) -> usize {
    while let Some(tokens) = tokens[start..].first_chunk::<T>() {
        let neighbours = [panels[0], panels[panels.len() - 1]];
        // SAFETY: the table with this function is only handed out where these extensions exist.
        unsafe { dot_pair::<F, T>(neighbours, tokens, &mut tile[..panels.len()], start) };
        start += T;
    }
    start
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn dot_pair<F: Form, const T: usize>(
    panels: [&[PanelBlock]; 2],
    tokens: &[&[ActivationBlock]; T],
    tile: &mut [[[f32; GROUP_ROWS]; TILE_TOKENS]],
    start: usize,
) {
    let n_blocks = panels[0].len();
    assert!(panels[1].len() == n_blocks && tokens.iter().all(|a| a.len() == n_blocks));
    let mut sums = [_mm512_setzero_ps(); T];
    for t in 0..T {
        sums[t] = join_ps(&tile[0][start + t], &tile[tile.len() - 1][start + t]);
    }
    for i in 0..n_blocks {
        // SAFETY: every panel has n_blocks elements.
        let w = unsafe { [panels[0].get_unchecked(i), panels[1].get_unchecked(i)] };
        let mut a = [&ActivationBlock::ZERO; T];
        for t in 0..T {
            // SAFETY: every token has n_blocks elements.
            a[t] = unsafe { tokens[t].get_unchecked(i) };
        }
        let products = products::<F, T>(w, &a);
        for t in 0..T {
            sums[t] = add_block::<F>(sums[t], products[t], w, a[t]);
        }
    }
    for t in 0..T {
        let halves: [[f32; GROUP_ROWS]; 2] = bytemuck::cast(to_array(sums[t]));
        for (group, half) in tile.iter_mut().zip(halves) {
            group[start + t] = half;
        }
    }
}

/// The exact integer sums of a block, per token. Signed weights are shifted by 128 to be unsigned.
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn products<F: Form, const T: usize>(w: Pair<'_>, a: &[&ActivationBlock; T]) -> [__m512i; T] {
    let zero = [_mm512_setzero_si512(); T];
    let offset = if F::SIGNED { 128 } else { F::OFFSET };
    let mut sums = zero;
    for t in 0..T {
        sums[t] = offset_term::<F>(offset, w, a[t]);
    }
    if F::HALF_SCALES {
        for half in 0..2 {
            let halves = quads::<F, T>(w, a, 4 * half, 4, zero);
            let scale = half_scale(w, half);
            for t in 0..T {
                sums[t] = _mm512_add_epi32(sums[t], _mm512_mullo_epi32(halves[t], scale));
            }
        }
        return sums;
    }
    if T > 4 {
        return quads::<F, T>(w, a, 0, 8, sums);
    }
    // Few sums are few chains of additions that wait for each other; two halves of a block make twice as
    // many.
    let mut sums = quads::<F, T>(w, a, 0, 4, sums);
    let second = quads::<F, T>(w, a, 4, 4, zero);
    for t in 0..T {
        sums[t] = _mm512_add_epi32(sums[t], second[t]);
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn quads<F: Form, const T: usize>(
    w: Pair<'_>,
    a: &[&ActivationBlock; T],
    first: usize,
    n: usize,
    mut sums: [__m512i; T],
) -> [__m512i; T] {
    for k in first..first + n {
        let quants = join(load_quants(w[0], k), load_quants(w[1], k));
        let quants = if F::SIGNED { _mm512_xor_si512(quants, _mm512_set1_epi8(-128)) } else { quants };
        for t in 0..T {
            sums[t] = _mm512_dpbusd_epi32(sums[t], quants, _mm512_set1_epi32(quad(a[t], k)));
        }
    }
    sums
}

/// What the integer sums of a block start from: minus the offset times the activations.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn offset_term<F: Form>(offset: i16, w: Pair<'_>, a: &ActivationBlock) -> __m512i {
    if offset == 0 {
        return _mm512_setzero_si512();
    }
    let factor = _mm512_set1_epi16(-offset);
    let factors = if F::HALF_SCALES {
        _mm512_mullo_epi16(join_pairs(&w[0].half_scales, &w[1].half_scales), factor)
    } else {
        factor
    };
    _mm512_madd_epi16(factors, half_sums(a))
}

/// The float part of one step, given the block's integer sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add_block<F: Form>(sum: __m512, products: __m512i, w: Pair<'_>, a: &ActivationBlock) -> __m512 {
    let scale = _mm512_set1_ps(a.scale);
    let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(products), scale);
    let sum = _mm512_fmadd_ps(scaled, join_ps(&w[0].scale, &w[1].scale), sum);
    match F::MINS {
        Mins::None => sum,
        Mins::PerBlock => _mm512_fnmadd_ps(_mm512_set1_ps(a.scaled_sum), join_ps(&w[0].min, &w[1].min), sum),
        Mins::PerHalf => {
            let mins = _mm512_madd_epi16(join_pairs(&w[0].half_mins, &w[1].half_mins), half_sums(a));
            let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(mins), scale);
            _mm512_fnmadd_ps(scaled, join_ps(&w[0].min, &w[1].min), sum)
        }
    }
}

/// The scale of one half, per row.
#[inline]
#[target_feature(enable = "avx512f")]
fn half_scale(w: Pair<'_>, half: usize) -> __m512i {
    let pairs = join_pairs(&w[0].half_scales, &w[1].half_scales);
    let high = if half == 0 { _mm512_slli_epi32::<16>(pairs) } else { pairs };
    _mm512_srai_epi32::<16>(high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn half_sums(a: &ActivationBlock) -> __m512i {
    _mm512_set1_epi32(half_sum_pair(a))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn join_pairs(first: &[[i16; 2]; GROUP_ROWS], second: &[[i16; 2]; GROUP_ROWS]) -> __m512i {
    join(load_pairs(first), load_pairs(second))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn join(first: __m256i, second: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn join_ps(first: &[f32; GROUP_ROWS], second: &[f32; GROUP_ROWS]) -> __m512 {
    let (first, second) = (_mm256_castps_si256(load_ps(first)), _mm256_castps_si256(load_ps(second)));
    _mm512_castsi512_ps(join(first, second))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn to_array(values: __m512) -> [f32; 2 * GROUP_ROWS] {
    let mut array = [0.0; 2 * GROUP_ROWS];
    // SAFETY: the array is 64 bytes.
    unsafe { _mm512_storeu_ps(array.as_mut_ptr(), values) };
    array
}
