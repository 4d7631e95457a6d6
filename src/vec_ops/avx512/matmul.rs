//! Matmul kernels for AVX-512 VNNI: four products and their sum in one instruction. Everything around that is
//! AVX2's.

use std::arch::x86_64::*;

use super::matmul_pair;
use crate::vec_ops::Isa;
use crate::vec_ops::avx2::matmul::{self as avx2, activation_quad, load_pairs, load_quants, offset_term};
use crate::vec_ops::avx2::matmul_packed::{self as packed, Multiply, Packed};
use crate::vec_ops::avx2::{matmul_unpack as unpack, matmul_unpack_k as unpack_k};
use crate::vec_ops::matmul::panel::{
    ActivationBlock, CentredFiveBit, CentredNibble, FiveBit, Form, GROUP_ROWS, Nibble, PanelBlock, RowGroup,
    SignedByte, SixBit, ThreeBit, TinyFloat, TwoBit,
};
use crate::vec_ops::matmul::{QuantKernel, Table};

// Every function in this table assumes AVX-512 F, BW, VL and VNNI; `matmul::table` hands the table out only
// where they exist.
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
    QuantKernel { unpack: packed::unpack::<P>, dot: matmul_pair::dot::<F>, single: Some(single::<P, F>) }
}

struct Vnni;
impl Multiply for Vnni {
    #[inline(always)]
    unsafe fn block<F: Form, const T: usize>(w: &PanelBlock, a: &[&ActivationBlock; T]) -> [__m256i; T] {
        // SAFETY: as for this function.
        unsafe { products::<F, T>(w, a) }
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

/// The exact integer sums of a block, per token. Signed weights are shifted by 128 to be unsigned.
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn products<F: Form, const T: usize>(w: &PanelBlock, a: &[&ActivationBlock; T]) -> [__m256i; T] {
    let zero = [_mm256_setzero_si256(); T];
    let offset = if F::SIGNED { 128 } else { F::OFFSET };
    let mut sums = zero;
    for t in 0..T {
        sums[t] = offset_term::<F>(offset, w, a[t]);
    }
    // Few sums are few chains of additions that wait for each other; two halves of a block make twice as
    // many.
    for half in 0..2 {
        let halves = half_products::<F, T>(w, a, half);
        let scale = half_scale(w, half);
        for t in 0..T {
            let scaled = if F::HALF_SCALES { _mm256_mullo_epi32(halves[t], scale) } else { halves[t] };
            sums[t] = _mm256_add_epi32(sums[t], scaled);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn half_products<F: Form, const T: usize>(
    w: &PanelBlock,
    a: &[&ActivationBlock; T],
    half: usize,
) -> [__m256i; T] {
    let mut sums = [_mm256_setzero_si256(); T];
    for k in 4 * half..4 * half + 4 {
        let quants = load_quants(w, k);
        let quants = if F::SIGNED { _mm256_xor_si256(quants, _mm256_set1_epi8(-128)) } else { quants };
        for t in 0..T {
            sums[t] = _mm256_dpbusd_epi32(sums[t], quants, activation_quad(a[t], k));
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
