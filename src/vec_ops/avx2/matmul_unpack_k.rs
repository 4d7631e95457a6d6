//! Super-blocks of 256 elements, unpacked.

use std::arch::x86_64::*;

use super::matmul_lanes::{
    Pointers, high_nibbles, load_halves, low_nibbles, nibble_table, split_halves, store_ps, store_quants,
    transpose16, unpack_table,
};
use super::matmul_packed::Packed;
use crate::tensor::{DType, IQ4_VALUES};
use crate::vec_ops::matmul::panel::{GROUP_ROWS, PanelBlock, SUPER_BLOCKS};

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

/// Every i16 shifted right by `n` bits.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_right(x: __m256i, n: usize) -> __m256i {
    _mm256_srl_epi16(x, _mm_cvtsi32_si128(n as i32))
}

/// Every i16 shifted left by `n` bits.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_left(x: __m256i, n: usize) -> __m256i {
    _mm256_sll_epi16(x, _mm_cvtsi32_si128(n as i32))
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
    let high_of_each = _mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13);
    _mm256_srai_epi16::<8>(_mm256_shuffle_epi8(pair, _mm256_broadcastsi128_si256(high_of_each)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_pairs(out: &mut [[i16; 2]; GROUP_ROWS], pairs: __m256i) {
    // SAFETY: the array is 32 bytes.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), pairs) };
}

/// Scales and minima of eight blocks of 32.
pub(in crate::vec_ops) struct BlockFactors {
    scale: [__m256; SUPER_BLOCKS],
    min: [__m256; SUPER_BLOCKS],
}

/// The 16 header bytes of Q4_K and Q5_K: factors, and eight 6-bit scales and minima in the layout of
/// [`unpack_scales_and_mins`](crate::tensor::unpack_scales_and_mins).
///
/// # Safety
/// AVX2 and F16C exist; 16 bytes are readable.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn block_factors(p: &Pointers, at: usize) -> BlockFactors {
    // SAFETY: the caller vouches for 16 bytes there.
    let [factors, a, b, c] = unsafe { transpose16(p, at) };
    let (d, dmin) = split_halves(factors);
    let scales = [and(a, 0x3f), or(low_nibbles(c), and(_mm256_srli_epi16::<2>(a), 0x30))];
    let mins = [and(b, 0x3f), or(high_nibbles(c), and(_mm256_srli_epi16::<2>(b), 0x30))];
    let mut out =
        BlockFactors { scale: [_mm256_setzero_ps(); SUPER_BLOCKS], min: [_mm256_setzero_ps(); SUPER_BLOCKS] };
    for i in 0..SUPER_BLOCKS {
        out.scale[i] = _mm256_mul_ps(d, byte_ps(scales[i / 4], i % 4));
        out.min[i] = _mm256_mul_ps(dmin, byte_ps(mins[i / 4], i % 4));
    }
    out
}

impl BlockFactors {
    /// # Safety
    /// AVX2 exists.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store(&self, first: usize, out: &mut [PanelBlock]) {
        for (i, block) in out.iter_mut().enumerate() {
            store_ps(&mut block.scale, self.scale[first + i]);
            store_ps(&mut block.min, self.min[first + i]);
        }
    }
}

pub(in crate::vec_ops) struct Q4K;
impl Packed for Q4K {
    const DTYPE: DType = DType::Q4K;
    const UNIT: usize = 2;
    type Header = BlockFactors;

    #[inline(always)]
    unsafe fn header(p: &Pointers, at: usize) -> BlockFactors {
        // SAFETY: a super-block begins with 16 header bytes.
        unsafe { block_factors(p, at) }
    }

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, header: &BlockFactors, unit: usize, out: &mut [PanelBlock]) {
        // SAFETY: a super-block is 16 + 4 * 32 bytes.
        unsafe {
            header.store(2 * unit, out);
            for half in 0..2 {
                let packed = transpose16(p, at + 16 + 32 * unit + 16 * half);
                for (i, x) in packed.into_iter().enumerate() {
                    store_quants(&mut out[0], 4 * half + i, low_nibbles(x));
                    store_quants(&mut out[1], 4 * half + i, high_nibbles(x));
                }
            }
        }
    }
}

pub(in crate::vec_ops) struct Q5K;
impl Packed for Q5K {
    const DTYPE: DType = DType::Q5K;
    const UNIT: usize = 2;
    /// Factors, and the fifth bits of all blocks.
    type Header = (BlockFactors, [[__m256i; 4]; 2]);

    #[inline(always)]
    unsafe fn header(p: &Pointers, at: usize) -> Self::Header {
        // SAFETY: a super-block begins with 16 + 32 bytes of factors and fifth bits.
        unsafe { (block_factors(p, at), [transpose16(p, at + 16), transpose16(p, at + 32)]) }
    }

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, header: &Self::Header, unit: usize, out: &mut [PanelBlock]) {
        let (factors, bits) = header;
        // SAFETY: a super-block is 48 + 4 * 32 bytes.
        unsafe {
            factors.store(2 * unit, out);
            for half in 0..2 {
                let packed = transpose16(p, at + 48 + 32 * unit + 16 * half);
                for (i, x) in packed.into_iter().enumerate() {
                    let bits = shift_right(bits[half][i], 2 * unit);
                    let (first, second) = (and(shift_left(bits, 4), 0x10), and(shift_left(bits, 3), 0x10));
                    store_quants(&mut out[0], 4 * half + i, or(low_nibbles(x), first));
                    store_quants(&mut out[1], 4 * half + i, or(high_nibbles(x), second));
                }
            }
        }
    }
}

/// Sixteen scales of a byte each, four per vector, and the factors of a super-block.
pub(in crate::vec_ops) struct HalfFactors {
    scales: [__m256i; 4],
    d: __m256,
}

impl HalfFactors {
    /// # Safety
    /// AVX2 exists.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store(&self, unit: usize, out: &mut [PanelBlock]) {
        for (i, block) in out.iter_mut().enumerate() {
            store_ps(&mut block.scale, self.d);
            store_pairs(&mut block.half_scales, byte_pair(self.scales[2 * unit + i / 2], i % 2));
        }
    }
}

pub(in crate::vec_ops) struct Q6K;
impl Packed for Q6K {
    const DTYPE: DType = DType::Q6K;
    const UNIT: usize = 4;
    type Header = HalfFactors;

    #[inline(always)]
    unsafe fn header(p: &Pointers, at: usize) -> HalfFactors {
        // SAFETY: a super-block is 192 bytes of quants, 16 of scales and 2 of factor.
        unsafe { HalfFactors { scales: transpose16(p, at + 192), d: load_halves(p, at + 208) } }
    }

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, header: &HalfFactors, unit: usize, out: &mut [PanelBlock]) {
        // SAFETY: 2 * 64 bytes of low bits are followed by 2 * 32 bytes of high bits.
        unsafe {
            header.store(unit, out);
            for half in 0..2 {
                let low = at + 64 * unit + 16 * half;
                let (a, b) = (transpose16(p, low), transpose16(p, low + 32));
                let high = transpose16(p, at + 128 + 32 * unit + 16 * half);
                for i in 0..4 {
                    let (k, h) = (4 * half + i, high[i]);
                    store_quants(&mut out[0], k, or(low_nibbles(a[i]), and(shift_left(h, 4), 0x30)));
                    store_quants(&mut out[1], k, or(low_nibbles(b[i]), and(shift_left(h, 2), 0x30)));
                    store_quants(&mut out[2], k, or(high_nibbles(a[i]), and(h, 0x30)));
                    store_quants(&mut out[3], k, or(high_nibbles(b[i]), and(shift_right(h, 2), 0x30)));
                }
            }
        }
    }
}

pub(in crate::vec_ops) struct Q2K;
impl Packed for Q2K {
    const DTYPE: DType = DType::Q2K;
    const UNIT: usize = 4;
    /// Scales with their factor, minima with theirs.
    type Header = (HalfFactors, HalfFactors);

    #[inline(always)]
    unsafe fn header(p: &Pointers, at: usize) -> Self::Header {
        // SAFETY: a super-block is 16 bytes of scales, 64 of quants and 4 of factors.
        unsafe {
            let packed = transpose16(p, at);
            let (mut scales, mut mins) = (packed, packed);
            for i in 0..4 {
                scales[i] = low_nibbles(packed[i]);
                mins[i] = high_nibbles(packed[i]);
            }
            let (d, dmin) = (load_halves(p, at + 80), load_halves(p, at + 82));
            (HalfFactors { scales, d }, HalfFactors { scales: mins, d: dmin })
        }
    }

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, header: &Self::Header, unit: usize, out: &mut [PanelBlock]) {
        let (factors, mins) = header;
        // SAFETY: 16 bytes of scales are followed by 2 * 32 bytes of quants.
        unsafe {
            factors.store(unit, out);
            for (i, block) in out.iter_mut().enumerate() {
                store_ps(&mut block.min, mins.d);
                store_pairs(&mut block.half_mins, byte_pair(mins.scales[2 * unit + i / 2], i % 2));
            }
            for half in 0..2 {
                let packed = transpose16(p, at + 16 + 32 * unit + 16 * half);
                for (i, x) in packed.into_iter().enumerate() {
                    for (j, block) in out.iter_mut().enumerate() {
                        store_quants(block, 4 * half + i, and(shift_right(x, 2 * j), 0x03));
                    }
                }
            }
        }
    }
}

pub(in crate::vec_ops) struct Q3K;
impl Packed for Q3K {
    const DTYPE: DType = DType::Q3K;
    const UNIT: usize = 4;
    /// Factors, and the third bits of all blocks.
    type Header = (HalfFactors, [[__m256i; 4]; 2]);

    #[inline(always)]
    unsafe fn header(p: &Pointers, at: usize) -> Self::Header {
        // SAFETY: a super-block is 32 + 64 + 12 + 2 bytes; the scales are read with the two bytes before and
        // after them.
        unsafe {
            let masks = [transpose16(p, at), transpose16(p, at + 16)];
            (q3_k_factors(transpose16(p, at + 94)), masks)
        }
    }

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, header: &Self::Header, unit: usize, out: &mut [PanelBlock]) {
        let (factors, masks) = header;
        // SAFETY: 32 bytes of third bits are followed by 2 * 32 bytes of quants.
        unsafe {
            factors.store(unit, out);
            for (half, masks) in masks.iter().enumerate() {
                let packed = transpose16(p, at + 32 + 32 * unit + 16 * half);
                for (i, x) in packed.into_iter().enumerate() {
                    // Above the third bits of this unit there may be those of the next.
                    let mask = shift_left(and(shift_right(masks[i], 4 * unit), 0x0f), 2);
                    for (j, block) in out.iter_mut().enumerate() {
                        let third = and(shift_right(mask, j), 0x04);
                        store_quants(block, 4 * half + i, or(and(shift_right(x, 2 * j), 0x03), third));
                    }
                }
            }
        }
    }
}

/// Scales and factor from the last 16 bytes of a Q3_K super-block; the layout of the scales is that of
/// [`BlockQ3K::unpack_scales`](crate::tensor::BlockQ3K::unpack_scales).
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn q3_k_factors(end: [__m256i; 4]) -> HalfFactors {
    let word = |i: usize| or(_mm256_srli_epi32::<16>(end[i]), _mm256_slli_epi32::<16>(end[i + 1]));
    let (a, b, c) = (word(0), word(1), word(2));
    let mut scales = [
        or(low_nibbles(a), and(shift_left(c, 4), 0x30)),
        or(low_nibbles(b), and(shift_left(c, 2), 0x30)),
        or(high_nibbles(a), and(c, 0x30)),
        or(high_nibbles(b), and(shift_right(c, 2), 0x30)),
    ];
    for scale in &mut scales {
        *scale = _mm256_sub_epi8(*scale, _mm256_set1_epi8(32));
    }
    let (_, d) = split_halves(end[3]);
    HalfFactors { scales, d }
}

pub(in crate::vec_ops) struct IQ4XS;
impl Packed for IQ4XS {
    const DTYPE: DType = DType::IQ4XS;
    const UNIT: usize = 1;
    type Header = [__m256; SUPER_BLOCKS];

    #[inline(always)]
    unsafe fn header(p: &Pointers, at: usize) -> Self::Header {
        // SAFETY: a super-block is 8 + 128 bytes, so 16 bytes are readable from its start.
        unsafe {
            let [factors, low, ..] = transpose16(p, at);
            iq4_xs_scales(factors, low)
        }
    }

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, header: &Self::Header, unit: usize, out: &mut [PanelBlock]) {
        // SAFETY: a super-block is 8 + 8 * 16 bytes.
        unsafe {
            store_ps(&mut out[0].scale, header[unit]);
            unpack_table(p, at + 8 + 16 * unit, nibble_table(&IQ4_VALUES), &mut out[0]);
        }
    }
}

/// The scales of eight blocks; `factors` has `d` in the low half and the scales' high bits in the high half
/// of every lane.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn iq4_xs_scales(factors: __m256i, low: __m256i) -> [__m256; SUPER_BLOCKS] {
    let (d, _) = split_halves(factors);
    let high = _mm256_srli_epi32::<16>(factors);
    let mut scales = [d; SUPER_BLOCKS];
    for (i, scale) in scales.iter_mut().enumerate() {
        let low = _mm256_srl_epi32(low, _mm_cvtsi32_si128(4 * i as i32));
        let high = _mm256_srl_epi32(high, _mm_cvtsi32_si128(2 * i as i32));
        let low = _mm256_and_si256(low, _mm256_set1_epi32(0x0f));
        let high = _mm256_slli_epi32::<4>(_mm256_and_si256(high, _mm256_set1_epi32(0x03)));
        let value = _mm256_sub_epi32(or(low, high), _mm256_set1_epi32(32));
        *scale = _mm256_mul_ps(d, _mm256_cvtepi32_ps(value));
    }
    scales
}
