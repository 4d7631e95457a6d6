//! Matmul kernels for AVX-512 VNNI: four products and their sum in one instruction. Everything around that is AVX2's.

use std::arch::x86_64::*;

use crate::vec_ops::Isa;
use crate::vec_ops::avx2::matmul::{
    self as avx2, activation_quad, add_block, load_pairs, load_ps, load_quants, offset_term,
};
use crate::vec_ops::avx2::matmul_packed::{self as packed, Multiply, Packed};
use crate::vec_ops::avx2::{matmul_unpack as unpack, matmul_unpack_k as unpack_k};
use crate::vec_ops::matmul::panel::{
    ActivationBlock, CentredFiveBit, CentredNibble, FiveBit, Form, GROUP_ROWS, Nibble, PanelBlock, RowGroup,
    SignedByte, SixBit, ThreeBit, Tile, TinyFloat, TwoBit,
};
use crate::vec_ops::matmul::{QuantKernel, Table};

// Every function in this table assumes AVX-512 F, BW, VL and VNNI; `matmul::table` hands the table out only where they exist.
pub(in crate::vec_ops) static TABLE: Table = Table {
    isa: Isa::Avx512,
    quantise: avx2::TABLE.quantise,
    f32: avx2::TABLE.f32,
    f16: avx2::TABLE.f16,
    bf16: avx2::TABLE.bf16,
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
    QuantKernel { unpack: packed::unpack::<P>, dot: dot::<F>, single: Some(single::<P, F>) }
}

struct Vnni;
impl Multiply for Vnni {
    #[inline(always)]
    unsafe fn block<F: Form, const T: usize>(w: &PanelBlock, a: &[&ActivationBlock; T]) -> [__m256i; T] {
        // SAFETY: as for this function.
        let [sums] = unsafe { products::<F, 1, T>(&[w], a) };
        sums
    }
}

fn single<P: Packed, F: Form>(
    rows: &RowGroup<'_>,
    vectors: &[&[ActivationBlock]],
    sums: &mut [[f32; GROUP_ROWS]],
    ahead: &[u8],
) {
    // SAFETY: the table with this function is only handed out where these extensions exist.
    unsafe {
        match *vectors {
            [a] => single_vnni::<P, F, 1>(rows, [a], sums, ahead),
            [a, b] => single_vnni::<P, F, 2>(rows, [a, b], sums, ahead),
            _ => unreachable!("a token has 1 or 2 planes"),
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn single_vnni<P: Packed, F: Form, const T: usize>(
    rows: &RowGroup<'_>,
    vectors: [&[ActivationBlock]; T],
    sums: &mut [[f32; GROUP_ROWS]],
    ahead: &[u8],
) {
    // SAFETY: this function enables these extensions.
    unsafe { packed::single_rows::<P, F, Vnni, T>(rows, vectors, sums, ahead) }
}

fn dot<F: Form>(panels: &[&[PanelBlock]], tokens: &[&[ActivationBlock]], tile: &mut Tile) {
    // SAFETY: the table with this function is only handed out where these extensions exist.
    unsafe {
        match (panels, tokens) {
            (&[p], &[a]) => dot_tile::<F, 1, 1>([p], [a], tile),
            (&[p], &[a, b]) => dot_tile::<F, 1, 2>([p], [a, b], tile),
            (&[p], &[a, b, c]) => dot_tile::<F, 1, 3>([p], [a, b, c], tile),
            (&[p], &[a, b, c, d]) => dot_tile::<F, 1, 4>([p], [a, b, c, d], tile),
            (&[p, q], &[a]) => dot_tile::<F, 2, 1>([p, q], [a], tile),
            (&[p, q], &[a, b]) => dot_tile::<F, 2, 2>([p, q], [a, b], tile),
            (&[p, q], &[a, b, c]) => dot_tile::<F, 2, 3>([p, q], [a, b, c], tile),
            (&[p, q], &[a, b, c, d]) => dot_tile::<F, 2, 4>([p, q], [a, b, c, d], tile),
            _ => unreachable!("a tile has 1 to 2 groups and 1 to 4 tokens"),
        }
    }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn dot_tile<F: Form, const G: usize, const T: usize>(
    panels: [&[PanelBlock]; G],
    tokens: [&[ActivationBlock]; T],
    tile: &mut Tile,
) {
    let n_blocks = panels[0].len();
    assert!(panels.iter().all(|p| p.len() == n_blocks) && tokens.iter().all(|a| a.len() == n_blocks));
    let mut sums = [[_mm256_setzero_ps(); T]; G];
    for g in 0..G {
        for t in 0..T {
            sums[g][t] = load_ps(&tile[g][t]);
        }
    }
    for i in 0..n_blocks {
        let mut w = [&PanelBlock::ZERO; G];
        for g in 0..G {
            // SAFETY: every panel has n_blocks elements.
            w[g] = unsafe { panels[g].get_unchecked(i) };
        }
        let mut a = [&ActivationBlock::ZERO; T];
        for t in 0..T {
            // SAFETY: every token has n_blocks elements.
            a[t] = unsafe { tokens[t].get_unchecked(i) };
        }
        let products = products::<F, G, T>(&w, &a);
        for g in 0..G {
            for t in 0..T {
                sums[g][t] = add_block::<F>(sums[g][t], products[g][t], w[g], a[t]);
            }
        }
    }
    for g in 0..G {
        for t in 0..T {
            // SAFETY: the innermost array is eight floats.
            unsafe { _mm256_storeu_ps(tile[g][t].as_mut_ptr(), sums[g][t]) };
        }
    }
}

/// The exact integer sums of a block, `[group][token]`. Signed weights are shifted by 128 to be unsigned.
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn products<F: Form, const G: usize, const T: usize>(
    w: &[&PanelBlock; G],
    a: &[&ActivationBlock; T],
) -> [[__m256i; T]; G] {
    let offset = if F::SIGNED { 128 } else { F::OFFSET };
    let mut sums = [[_mm256_setzero_si256(); T]; G];
    for g in 0..G {
        for t in 0..T {
            sums[g][t] = offset_term::<F>(offset, w[g], a[t]);
        }
    }
    if F::HALF_SCALES {
        for half in 0..2 {
            let halves = quads::<F, G, T>(w, a, 4 * half, 4, [[_mm256_setzero_si256(); T]; G]);
            for g in 0..G {
                let scale = half_scale(w[g], half);
                for t in 0..T {
                    sums[g][t] = _mm256_add_epi32(sums[g][t], _mm256_mullo_epi32(halves[g][t], scale));
                }
            }
        }
        return sums;
    }
    if G * T > 2 {
        return quads::<F, G, T>(w, a, 0, 8, sums);
    }
    // Few sums are few chains of additions that wait for each other; two halves of a block make twice as many.
    let first = quads::<F, G, T>(w, a, 0, 4, sums);
    let second = quads::<F, G, T>(w, a, 4, 4, [[_mm256_setzero_si256(); T]; G]);
    std::array::from_fn(|g| std::array::from_fn(|t| _mm256_add_epi32(first[g][t], second[g][t])))
}

#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn quads<F: Form, const G: usize, const T: usize>(
    w: &[&PanelBlock; G],
    a: &[&ActivationBlock; T],
    first: usize,
    n: usize,
    mut sums: [[__m256i; T]; G],
) -> [[__m256i; T]; G] {
    for k in first..first + n {
        for g in 0..G {
            let quants = load_quants(w[g], k);
            let quants = if F::SIGNED { _mm256_xor_si256(quants, _mm256_set1_epi8(-128)) } else { quants };
            for t in 0..T {
                sums[g][t] = _mm256_dpbusd_epi32(sums[g][t], quants, activation_quad(a[t], k));
            }
        }
    }
    sums
}

/// The scale of one half, per row.
#[inline]
#[target_feature(enable = "avx2")]
fn half_scale(w: &PanelBlock, half: usize) -> __m256i {
    let pairs = load_pairs(&w.half_scales);
    if half == 0 {
        _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(pairs))
    } else {
        _mm256_srai_epi32::<16>(pairs)
    }
}
