//! Super-blocks of 256 elements to panels of eight blocks.

use std::arch::x86_64::*;

use super::matmul_unpack::{
    Ahead, Pointers, high_nibbles, load_halves, low_nibbles, nibble_table, split_halves, store_ps,
    store_quants, transpose16, unpack_table,
};
use crate::tensor::{DType, IQ4_VALUES};
use crate::vec_ops::matmul::panel::{GROUP_ROWS, PanelBlock, RowGroup, SUPER_BLOCKS};

/// A type with 256 elements per block.
pub(super) trait SuperBlocks {
    const DTYPE: DType;

    /// Unpacks the super-block `at` bytes behind the pointers. Takes four steps of `ahead`.
    ///
    /// # Safety
    /// AVX2 and F16C exist; a whole super-block is readable there in every row.
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut [PanelBlock; SUPER_BLOCKS], ahead: Ahead);
}

pub(super) fn super_blocks<B: SuperBlocks>(
    rows: &RowGroup<'_>,
    first: usize,
    panel: &mut [PanelBlock],
    ahead: &[u8],
) {
    let (panel, rest) = panel.as_chunks_mut::<SUPER_BLOCKS>();
    assert!(rest.is_empty() && first.is_multiple_of(SUPER_BLOCKS), "whole super-blocks are unpacked");
    let (n_bytes, first) = (B::DTYPE.block_bytes(), first / SUPER_BLOCKS);
    let end = (first + panel.len()) * n_bytes;
    assert!(rows.iter().all(|row| row.len() >= end), "rows hold the blocks asked for");
    let pointers = rows.map(<[u8]>::as_ptr);
    // Bytes are asked for only where panels are one super-block, so the steps of one are all there are.
    let ahead = Ahead::new(ahead, 4);
    for (i, out) in panel.iter_mut().enumerate() {
        // SAFETY: the rows reach to `end`, as just checked; the table with this function is only handed out where AVX2 and F16C exist.
        unsafe { B::unpack(&pointers, (first + i) * n_bytes, out, ahead) };
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn and(x: __m256i, byte: i8) -> __m256i {
    _mm256_and_si256(x, _mm256_set1_epi8(byte))
}

#[inline]
#[target_feature(enable = "avx2")]
fn or(x: __m256i, y: __m256i) -> __m256i {
    _mm256_or_si256(x, y)
}

/// Bits `shift, shift + 1` of every byte, for an even `shift` known after inlining.
#[inline]
#[target_feature(enable = "avx2")]
fn two_bits(x: __m256i, shift: usize) -> __m256i {
    and(_mm256_srl_epi16(x, _mm_cvtsi32_si128(shift as i32)), 0x03)
}

/// Bit `from` of every byte, moved to bit `to`.
#[inline]
#[target_feature(enable = "avx2")]
fn move_bit(x: __m256i, from: usize, to: usize) -> __m256i {
    let moved = if from > to {
        _mm256_srl_epi16(x, _mm_cvtsi32_si128((from - to) as i32))
    } else {
        _mm256_sll_epi16(x, _mm_cvtsi32_si128((to - from) as i32))
    };
    and(moved, 1 << to)
}

/// Byte `i` of every lane as f32.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_ps(x: __m256i, i: usize) -> __m256 {
    let shifted = _mm256_srl_epi32(x, _mm_cvtsi32_si128(8 * i as i32));
    _mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(0xff)))
}

/// The signed bytes `2i, 2i + 1` of every lane as two i16.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_pair(x: __m256i, i: usize) -> __m256i {
    let pair = _mm256_srl_epi32(x, _mm_cvtsi32_si128(16 * i as i32));
    let high_of_each =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13));
    _mm256_srai_epi16::<8>(_mm256_shuffle_epi8(pair, high_of_each))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_pairs(out: &mut [[i16; 2]; GROUP_ROWS], pairs: __m256i) {
    // SAFETY: the array is 32 bytes.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), pairs) };
}

/// The 16 header bytes of Q4_K and Q5_K: factors, and eight 6-bit scales and minima in the layout of
/// [`unpack_scales_and_mins`](crate::tensor::unpack_scales_and_mins).
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn unpack_header(p: &Pointers, at: usize, out: &mut [PanelBlock; SUPER_BLOCKS]) {
    // SAFETY: the caller vouches for 16 bytes there.
    let [factors, a, b, c] = unsafe { transpose16(p, at) };
    let (d, dmin) = split_halves(factors);
    let top = |x: __m256i| and(_mm256_srli_epi16::<2>(x), 0x30);
    let scales = [and(a, 0x3f), or(low_nibbles(c), top(a))];
    let mins = [and(b, 0x3f), or(high_nibbles(c), top(b))];
    for (j, block) in out.iter_mut().enumerate() {
        store_ps(&mut block.scale, _mm256_mul_ps(d, byte_ps(scales[j / 4], j % 4)));
        store_ps(&mut block.min, _mm256_mul_ps(dmin, byte_ps(mins[j / 4], j % 4)));
    }
}

pub(super) struct Q4K;
impl SuperBlocks for Q4K {
    const DTYPE: DType = DType::Q4K;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut [PanelBlock; SUPER_BLOCKS], ahead: Ahead) {
        // SAFETY: a super-block is 16 + 128 bytes.
        unsafe { unpack_header(p, at, out) };
        for part in 0..8 {
            if part % 2 == 0 {
                ahead.ask(part / 2);
            }
            // SAFETY: as above.
            let packed = unsafe { transpose16(p, at + 16 + 16 * part) };
            for (i, x) in packed.into_iter().enumerate() {
                let (block, k) = (part / 2 * 2, part % 2 * 4 + i);
                store_quants(&mut out[block], k, low_nibbles(x));
                store_quants(&mut out[block + 1], k, high_nibbles(x));
            }
        }
    }
}

pub(super) struct Q5K;
impl SuperBlocks for Q5K {
    const DTYPE: DType = DType::Q5K;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut [PanelBlock; SUPER_BLOCKS], ahead: Ahead) {
        // SAFETY: a super-block is 16 + 32 + 128 bytes.
        let bits = unsafe {
            unpack_header(p, at, out);
            [transpose16(p, at + 16), transpose16(p, at + 32)]
        };
        for part in 0..8 {
            if part % 2 == 0 {
                ahead.ask(part / 2);
            }
            // SAFETY: as above.
            let packed = unsafe { transpose16(p, at + 48 + 16 * part) };
            for (i, x) in packed.into_iter().enumerate() {
                let (block, k) = (part / 2 * 2, part % 2 * 4 + i);
                let bits = bits[part % 2][i];
                store_quants(&mut out[block], k, or(low_nibbles(x), move_bit(bits, block, 4)));
                store_quants(&mut out[block + 1], k, or(high_nibbles(x), move_bit(bits, block + 1, 4)));
            }
        }
    }
}

pub(super) struct Q6K;
impl SuperBlocks for Q6K {
    const DTYPE: DType = DType::Q6K;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut [PanelBlock; SUPER_BLOCKS], ahead: Ahead) {
        // SAFETY: a super-block is 128 + 64 + 16 + 2 bytes.
        let (scales, d) = unsafe { (transpose16(p, at + 192), load_halves(p, at + 208)) };
        for (j, block) in out.iter_mut().enumerate() {
            store_ps(&mut block.scale, d);
            store_pairs(&mut block.half_scales, byte_pair(scales[j / 2], j % 2));
        }
        for (half, part) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let low = at + 64 * half + 16 * part;
            ahead.ask(2 * half + part);
            // SAFETY: as above.
            let (a, b, high) = unsafe {
                (
                    transpose16(p, low),
                    transpose16(p, low + 32),
                    transpose16(p, at + 128 + 32 * half + 16 * part),
                )
            };
            for i in 0..4 {
                let (k, h) = (4 * part + i, high[i]);
                let top = [
                    and(_mm256_slli_epi16::<4>(h), 0x30),
                    and(_mm256_slli_epi16::<2>(h), 0x30),
                    and(h, 0x30),
                    and(_mm256_srli_epi16::<2>(h), 0x30),
                ];
                store_quants(&mut out[4 * half], k, or(low_nibbles(a[i]), top[0]));
                store_quants(&mut out[4 * half + 1], k, or(low_nibbles(b[i]), top[1]));
                store_quants(&mut out[4 * half + 2], k, or(high_nibbles(a[i]), top[2]));
                store_quants(&mut out[4 * half + 3], k, or(high_nibbles(b[i]), top[3]));
            }
        }
    }
}

pub(super) struct Q2K;
impl SuperBlocks for Q2K {
    const DTYPE: DType = DType::Q2K;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut [PanelBlock; SUPER_BLOCKS], ahead: Ahead) {
        // SAFETY: a super-block is 16 + 64 + 4 bytes.
        let (packed, d, dmin) =
            unsafe { (transpose16(p, at), load_halves(p, at + 80), load_halves(p, at + 82)) };
        for (j, block) in out.iter_mut().enumerate() {
            store_ps(&mut block.scale, d);
            store_ps(&mut block.min, dmin);
            store_pairs(&mut block.half_scales, byte_pair(low_nibbles(packed[j / 2]), j % 2));
            store_pairs(&mut block.half_mins, byte_pair(high_nibbles(packed[j / 2]), j % 2));
        }
        for part in 0..4 {
            ahead.ask(part);
            // SAFETY: as above.
            let packed = unsafe { transpose16(p, at + 16 + 16 * part) };
            for (i, x) in packed.into_iter().enumerate() {
                for j in 0..4 {
                    store_quants(&mut out[part / 2 * 4 + j], part % 2 * 4 + i, two_bits(x, 2 * j));
                }
            }
        }
    }
}

pub(super) struct Q3K;
impl SuperBlocks for Q3K {
    const DTYPE: DType = DType::Q3K;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut [PanelBlock; SUPER_BLOCKS], ahead: Ahead) {
        // SAFETY: a super-block is 32 + 64 + 12 + 2 bytes; the scales are read with the two bytes before and after them.
        let (masks, end) =
            unsafe { ([transpose16(p, at), transpose16(p, at + 16)], transpose16(p, at + 94)) };
        let (scales, d) = q3_k_scales(end);
        for (j, block) in out.iter_mut().enumerate() {
            store_ps(&mut block.scale, d);
            store_pairs(&mut block.half_scales, byte_pair(scales[j / 2], j % 2));
        }
        for part in 0..4 {
            ahead.ask(part);
            // SAFETY: as above.
            let packed = unsafe { transpose16(p, at + 32 + 16 * part) };
            for (i, x) in packed.into_iter().enumerate() {
                let mask = masks[part % 2][i];
                for j in 0..4 {
                    let block = part / 2 * 4 + j;
                    let quants = or(two_bits(x, 2 * j), move_bit(mask, block, 2));
                    store_quants(&mut out[block], part % 2 * 4 + i, quants);
                }
            }
        }
    }
}

/// Sixteen scales, four per vector, and the factor, from the last 16 bytes of a Q3_K super-block; the layout of the scales is that of
/// [`BlockQ3K::unpack_scales`](crate::tensor::BlockQ3K::unpack_scales).
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn q3_k_scales(end: [__m256i; 4]) -> ([__m256i; 4], __m256) {
    let word = |i: usize| or(_mm256_srli_epi32::<16>(end[i]), _mm256_slli_epi32::<16>(end[i + 1]));
    let (a, b, c) = (word(0), word(1), word(2));
    let top = |x: __m256i| and(x, 0x30);
    let packed = [
        or(low_nibbles(a), top(_mm256_slli_epi16::<4>(c))),
        or(low_nibbles(b), top(_mm256_slli_epi16::<2>(c))),
        or(high_nibbles(a), top(c)),
        or(high_nibbles(b), top(_mm256_srli_epi16::<2>(c))),
    ];
    let (_, d) = split_halves(end[3]);
    (packed.map(|x| _mm256_sub_epi8(x, _mm256_set1_epi8(32))), d)
}

pub(super) struct IQ4XS;
impl SuperBlocks for IQ4XS {
    const DTYPE: DType = DType::IQ4XS;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut [PanelBlock; SUPER_BLOCKS], ahead: Ahead) {
        // SAFETY: a super-block is 8 + 128 bytes, so 16 bytes are readable from its start.
        let [factors, low, ..] = unsafe { transpose16(p, at) };
        let (d, _) = split_halves(factors);
        let high = _mm256_srli_epi32::<16>(factors);
        let table = nibble_table(&IQ4_VALUES);
        for (j, block) in out.iter_mut().enumerate() {
            if j % 2 == 0 {
                ahead.ask(j / 2);
            }
            let bits = |x, shift: usize, mask| {
                let shifted = _mm256_srl_epi32(x, _mm_cvtsi32_si128(shift as i32));
                _mm256_and_si256(shifted, _mm256_set1_epi32(mask))
            };
            let scale = or(bits(low, 4 * j, 0x0f), _mm256_slli_epi32::<4>(bits(high, 2 * j, 0x03)));
            let scale = _mm256_cvtepi32_ps(_mm256_sub_epi32(scale, _mm256_set1_epi32(32)));
            store_ps(&mut block.scale, _mm256_mul_ps(d, scale));
            // SAFETY: as above.
            unsafe { unpack_table(p, at + 8 + 16 * j, table, block) };
        }
    }
}
