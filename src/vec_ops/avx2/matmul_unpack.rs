//! Blocks of 32 elements to panels.

use std::arch::x86_64::*;

use super::matmul_lanes::{
    Pointers, high_nibbles, load_halves, load_quads, low_nibbles, nibble_table, split_halves, store_ps,
    store_quants, transpose16, unpack_table,
};
use super::matmul_packed::Packed;
use crate::tensor::{DType, IQ4_VALUES, MXFP4_VALUES};
use crate::vec_ops::matmul::panel::{Form, GROUP_ROWS, PanelBlock, TinyFloat};

#[inline]
#[target_feature(enable = "avx2")]
fn negate(x: __m256) -> __m256 {
    _mm256_xor_ps(x, _mm256_set1_ps(-0.0))
}

/// 16 packed bytes at `at` as 32 nibbles.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn unpack_nibbles(p: &Pointers, at: usize, out: &mut PanelBlock) {
    // SAFETY: the caller vouches for 16 bytes there.
    let packed = unsafe { transpose16(p, at) };
    for (k, x) in packed.into_iter().enumerate() {
        store_quants(out, k, low_nibbles(x));
        store_quants(out, k + 4, high_nibbles(x));
    }
}

/// Bits `4k..4k+4` of `bits`, each as 16 or 0 in one of the lane's bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn fifth_bits(bits: __m256i, k: usize) -> __m256i {
    let byte = (k / 2) as i8;
    let of_lane = |lane: i8| byte + 4 * lane;
    let [a, b, c, d] = [of_lane(0), of_lane(1), of_lane(2), of_lane(3)];
    let spread = _mm256_broadcastsi128_si256(_mm_setr_epi8(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d));
    let select = _mm256_set1_epi32(if k.is_multiple_of(2) { 0x0804_0201 } else { 0x8040_2010_u32 as i32 });
    let chosen = _mm256_and_si256(_mm256_shuffle_epi8(bits, spread), select);
    _mm256_and_si256(_mm256_cmpeq_epi8(chosen, select), _mm256_set1_epi8(16))
}

/// 4 bytes of fifth bits at `at`, then 16 packed bytes, as 32 five-bit numbers.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn unpack_five_bits(p: &Pointers, at: usize, out: &mut PanelBlock) {
    // SAFETY: the caller vouches for 20 bytes there.
    let (bits, packed) = unsafe { (load_quads(p, at), transpose16(p, at + 4)) };
    for (k, x) in packed.into_iter().enumerate() {
        store_quants(out, k, _mm256_or_si256(low_nibbles(x), fifth_bits(bits, k)));
        store_quants(out, k + 4, _mm256_or_si256(high_nibbles(x), fifth_bits(bits, k + 4)));
    }
}

pub(in crate::vec_ops) struct Q4_0;
impl Packed for Q4_0 {
    const DTYPE: DType = DType::Q4_0;
    const UNIT: usize = 1;
    type Header = ();

    #[inline(always)]
    unsafe fn header(_: &Pointers, _: usize) {}

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, (): &(), _: usize, out: &mut [PanelBlock]) {
        let out = &mut out[0];
        // SAFETY: a block is 18 bytes.
        unsafe {
            store_ps(&mut out.scale, load_halves(p, at));
            unpack_nibbles(p, at + 2, out);
        }
    }
}

pub(in crate::vec_ops) struct Q4_1;
impl Packed for Q4_1 {
    const DTYPE: DType = DType::Q4_1;
    const UNIT: usize = 1;
    type Header = ();

    #[inline(always)]
    unsafe fn header(_: &Pointers, _: usize) {}

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, (): &(), _: usize, out: &mut [PanelBlock]) {
        let out = &mut out[0];
        // SAFETY: a block is 20 bytes.
        unsafe {
            let (scale, min) = split_halves(load_quads(p, at));
            store_ps(&mut out.scale, scale);
            store_ps(&mut out.min, negate(min));
            unpack_nibbles(p, at + 4, out);
        }
    }
}

pub(in crate::vec_ops) struct Q5_0;
impl Packed for Q5_0 {
    const DTYPE: DType = DType::Q5_0;
    const UNIT: usize = 1;
    type Header = ();

    #[inline(always)]
    unsafe fn header(_: &Pointers, _: usize) {}

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, (): &(), _: usize, out: &mut [PanelBlock]) {
        let out = &mut out[0];
        // SAFETY: a block is 22 bytes.
        unsafe {
            store_ps(&mut out.scale, load_halves(p, at));
            unpack_five_bits(p, at + 2, out);
        }
    }
}

pub(in crate::vec_ops) struct Q5_1;
impl Packed for Q5_1 {
    const DTYPE: DType = DType::Q5_1;
    const UNIT: usize = 1;
    type Header = ();

    #[inline(always)]
    unsafe fn header(_: &Pointers, _: usize) {}

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, (): &(), _: usize, out: &mut [PanelBlock]) {
        let out = &mut out[0];
        // SAFETY: a block is 24 bytes.
        unsafe {
            let (scale, min) = split_halves(load_quads(p, at));
            store_ps(&mut out.scale, scale);
            store_ps(&mut out.min, negate(min));
            unpack_five_bits(p, at + 4, out);
        }
    }
}

pub(in crate::vec_ops) struct Q8_0;
impl Packed for Q8_0 {
    const DTYPE: DType = DType::Q8_0;
    const UNIT: usize = 1;
    type Header = ();

    #[inline(always)]
    unsafe fn header(_: &Pointers, _: usize) {}

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, (): &(), _: usize, out: &mut [PanelBlock]) {
        let out = &mut out[0];
        // SAFETY: a block is 34 bytes.
        unsafe {
            store_ps(&mut out.scale, load_halves(p, at));
            for (half, at) in [at + 2, at + 18].into_iter().enumerate() {
                for (k, x) in transpose16(p, at).into_iter().enumerate() {
                    store_quants(out, 4 * half + k, x);
                }
            }
        }
    }
}

pub(in crate::vec_ops) struct IQ4NL;
impl Packed for IQ4NL {
    const DTYPE: DType = DType::IQ4NL;
    const UNIT: usize = 1;
    type Header = ();

    #[inline(always)]
    unsafe fn header(_: &Pointers, _: usize) {}

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, (): &(), _: usize, out: &mut [PanelBlock]) {
        let out = &mut out[0];
        // SAFETY: a block is 18 bytes.
        unsafe {
            store_ps(&mut out.scale, load_halves(p, at));
            unpack_table(p, at + 2, nibble_table(&IQ4_VALUES), out);
        }
    }
}

/// The values of MXFP4, made unsigned as [`TinyFloat`] says.
const TINY_FLOATS: [i8; 16] = {
    let mut values = MXFP4_VALUES;
    let mut i = 0;
    while i < values.len() {
        values[i] += TinyFloat::OFFSET as i8;
        i += 1;
    }
    values
};

pub(in crate::vec_ops) struct MXFP4;
impl Packed for MXFP4 {
    const DTYPE: DType = DType::MXFP4;
    const UNIT: usize = 1;
    type Header = ();

    #[inline(always)]
    unsafe fn header(_: &Pointers, _: usize) {}

    #[inline(always)]
    unsafe fn unit(p: &Pointers, at: usize, (): &(), _: usize, out: &mut [PanelBlock]) {
        let out = &mut out[0];
        // SAFETY: a block is 17 bytes.
        unsafe {
            store_ps(&mut out.scale, powers_of_two(p, at));
            unpack_table(p, at + 1, nibble_table(&TINY_FLOATS), out);
        }
    }
}

/// `2^(e - 128)` for the byte `e` at `at` of every row.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn powers_of_two(p: &Pointers, at: usize) -> __m256 {
    let mut exponents = [0; GROUP_ROWS];
    for (e, p) in exponents.iter_mut().zip(p) {
        // SAFETY: the caller vouches for a byte there.
        *e = i32::from(unsafe { p.add(at).read() });
    }
    // SAFETY: the array is 32 bytes.
    let e = unsafe { _mm256_loadu_si256(exponents.as_ptr().cast()) };
    let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
    let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
    let is_subnormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, is_subnormal))
}
