//! Blocks of 32 elements to panels.
//!
//! The rows' bytes are transposed in units of four while they are still packed; after that every lane holds one row and the bits are
//! taken apart for eight rows at once.

use std::arch::x86_64::*;

use crate::tensor::{DType, IQ4_VALUES, MXFP4_VALUES};
use crate::vec_ops::matmul::panel::{Form, GROUP_ROWS, PanelBlock, RowGroup, TinyFloat};

/// Where the blocks to unpack begin, one address per row.
pub(super) type Pointers = [*const u8; GROUP_ROWS];

/// Bytes to ask for in small portions. Asked for all at once, they would fill the queue to memory and stop everything until it drains.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    start: *const u8,
    /// Bytes per step.
    portion: usize,
}

impl Ahead {
    const LINE: usize = 64;

    pub(super) fn new(bytes: &[u8], n_steps: usize) -> Ahead {
        Ahead { start: bytes.as_ptr(), portion: bytes.len().div_ceil(n_steps.max(1)) }
    }

    /// Asks for the portion of step `step`. The second-level cache is near enough, and requests to it wait in a longer queue.
    #[inline]
    pub(super) fn ask(self, step: usize) {
        let start = self.start.wrapping_add(step * self.portion);
        for at in (0..self.portion).step_by(Ahead::LINE) {
            // SAFETY: a prefetch reads nothing and cannot fault, whatever the address; SSE is part of every x86-64.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(at).cast()) };
        }
    }
}

/// A type with 32 elements per block.
pub(super) trait Blocks {
    const DTYPE: DType;

    /// Unpacks the block `at` bytes behind the pointers.
    ///
    /// # Safety
    /// AVX2 and F16C exist; a whole block is readable there in every row.
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut PanelBlock);
}

pub(super) fn blocks<B: Blocks>(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock], ahead: &[u8]) {
    let n_bytes = B::DTYPE.block_bytes();
    let end = (first + panel.len()) * n_bytes;
    assert!(rows.iter().all(|row| row.len() >= end), "rows hold the blocks asked for");
    let pointers = rows.map(<[u8]>::as_ptr);
    let ahead = Ahead::new(ahead, panel.len());
    for (i, out) in panel.iter_mut().enumerate() {
        ahead.ask(i);
        // SAFETY: the rows reach to `end`, as just checked; the table with this function is only handed out where AVX2 and F16C exist.
        unsafe { B::unpack(&pointers, (first + i) * n_bytes, out) };
    }
}

/// 16 bytes of eight rows as four vectors: lane `r` of vector `j` is bytes `4j..4j+4` of row `r`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose16(p: &Pointers, at: usize) -> [__m256i; 4] {
    let mut x = [_mm256_setzero_si256(); 4];
    for i in 0..4 {
        // SAFETY: the caller vouches for 16 bytes there.
        let (low, high) =
            unsafe { (_mm_loadu_si128(p[i].add(at).cast()), _mm_loadu_si128(p[i + 4].add(at).cast())) };
        x[i] = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
    }
    let (low01, high01) = (_mm256_unpacklo_epi32(x[0], x[1]), _mm256_unpackhi_epi32(x[0], x[1]));
    let (low23, high23) = (_mm256_unpacklo_epi32(x[2], x[3]), _mm256_unpackhi_epi32(x[2], x[3]));
    [
        _mm256_unpacklo_epi64(low01, low23),
        _mm256_unpackhi_epi64(low01, low23),
        _mm256_unpacklo_epi64(high01, high23),
        _mm256_unpackhi_epi64(high01, high23),
    ]
}

/// The half-precision number at `at` of every row.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn load_halves(p: &Pointers, at: usize) -> __m256 {
    // SAFETY: the caller vouches for two bytes there.
    let h = |r: usize| unsafe { p[r].add(at).cast::<i16>().read_unaligned() };
    _mm256_cvtph_ps(_mm_setr_epi16(h(0), h(1), h(2), h(3), h(4), h(5), h(6), h(7)))
}

/// The four bytes at `at` of every row.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_quads(p: &Pointers, at: usize) -> __m256i {
    // SAFETY: the caller vouches for four bytes there.
    let q = |r: usize| unsafe { p[r].add(at).cast::<i32>().read_unaligned() };
    _mm256_setr_epi32(q(0), q(1), q(2), q(3), q(4), q(5), q(6), q(7))
}

/// Two half-precision numbers per lane, as the vector of the low ones and that of the high ones.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn split_halves(x: __m256i) -> (__m256, __m256) {
    let low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    let packed = _mm256_packus_epi32(low, _mm256_srli_epi32::<16>(x));
    let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
    (
        _mm256_cvtph_ps(_mm256_castsi256_si128(ordered)),
        _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(ordered)),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn low_nibbles(x: __m256i) -> __m256i {
    _mm256_and_si256(x, _mm256_set1_epi8(0x0f))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn high_nibbles(x: __m256i) -> __m256i {
    low_nibbles(_mm256_srli_epi16::<4>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_quants(out: &mut PanelBlock, k: usize, quants: __m256i) {
    // SAFETY: the array is 32 bytes.
    unsafe { _mm256_storeu_si256(out.quants[k].as_mut_ptr().cast(), quants) };
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_ps(out: &mut [f32; GROUP_ROWS], values: __m256) {
    // SAFETY: the array is 32 bytes.
    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), values) };
}

#[inline]
#[target_feature(enable = "avx2")]
fn negate(x: __m256) -> __m256 {
    _mm256_xor_ps(x, _mm256_set1_ps(-0.0))
}

/// A table of 16 bytes that nibbles index.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn nibble_table(values: &[i8; 16]) -> __m256i {
    // SAFETY: the array is 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(values.as_ptr().cast()) })
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

/// 16 packed bytes at `at` as 32 values from a table.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn unpack_table(p: &Pointers, at: usize, table: __m256i, out: &mut PanelBlock) {
    // SAFETY: the caller vouches for 16 bytes there.
    let packed = unsafe { transpose16(p, at) };
    for (k, x) in packed.into_iter().enumerate() {
        store_quants(out, k, _mm256_shuffle_epi8(table, low_nibbles(x)));
        store_quants(out, k + 4, _mm256_shuffle_epi8(table, high_nibbles(x)));
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

pub(super) struct Q4_0;
impl Blocks for Q4_0 {
    const DTYPE: DType = DType::Q4_0;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut PanelBlock) {
        // SAFETY: a block is 18 bytes.
        unsafe {
            store_ps(&mut out.scale, load_halves(p, at));
            unpack_nibbles(p, at + 2, out);
        }
    }
}

pub(super) struct Q4_1;
impl Blocks for Q4_1 {
    const DTYPE: DType = DType::Q4_1;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut PanelBlock) {
        // SAFETY: a block is 20 bytes.
        unsafe {
            let (scale, min) = split_halves(load_quads(p, at));
            store_ps(&mut out.scale, scale);
            store_ps(&mut out.min, negate(min));
            unpack_nibbles(p, at + 4, out);
        }
    }
}

pub(super) struct Q5_0;
impl Blocks for Q5_0 {
    const DTYPE: DType = DType::Q5_0;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut PanelBlock) {
        // SAFETY: a block is 22 bytes.
        unsafe {
            store_ps(&mut out.scale, load_halves(p, at));
            unpack_five_bits(p, at + 2, out);
        }
    }
}

pub(super) struct Q5_1;
impl Blocks for Q5_1 {
    const DTYPE: DType = DType::Q5_1;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut PanelBlock) {
        // SAFETY: a block is 24 bytes.
        unsafe {
            let (scale, min) = split_halves(load_quads(p, at));
            store_ps(&mut out.scale, scale);
            store_ps(&mut out.min, negate(min));
            unpack_five_bits(p, at + 4, out);
        }
    }
}

pub(super) struct Q8_0;
impl Blocks for Q8_0 {
    const DTYPE: DType = DType::Q8_0;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut PanelBlock) {
        // SAFETY: a block is 34 bytes.
        let halves = unsafe {
            store_ps(&mut out.scale, load_halves(p, at));
            [transpose16(p, at + 2), transpose16(p, at + 18)]
        };
        for (k, &x) in halves.as_flattened().iter().enumerate() {
            store_quants(out, k, x);
        }
    }
}

pub(super) struct IQ4NL;
impl Blocks for IQ4NL {
    const DTYPE: DType = DType::IQ4NL;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut PanelBlock) {
        // SAFETY: a block is 18 bytes.
        unsafe {
            store_ps(&mut out.scale, load_halves(p, at));
            unpack_table(p, at + 2, nibble_table(&IQ4_VALUES), out);
        }
    }
}

pub(super) struct MXFP4;
impl Blocks for MXFP4 {
    const DTYPE: DType = DType::MXFP4;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(p: &Pointers, at: usize, out: &mut PanelBlock) {
        let table = nibble_table(&MXFP4_VALUES.map(|value| value + TinyFloat::OFFSET as i8));
        // SAFETY: a block is 17 bytes.
        unsafe {
            out.scale = std::array::from_fn(|r| power_of_two(p[r].add(at).read()));
            unpack_table(p, at + 1, table, out);
        }
    }
}

/// `2^(e - 128)`.
#[inline]
fn power_of_two(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 })
}
