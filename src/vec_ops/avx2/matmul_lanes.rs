//! Eight rows in the lanes of a vector: loading packed bytes transposed, taking bits apart, storing to a
//! panel.
//!
//! The rows' bytes are transposed in units of four while they are still packed; after that every lane holds
//! one row and the bits are taken apart for eight rows at once.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::vec_ops::matmul::panel::{GROUP_ROWS, PanelBlock};

/// Where the blocks to unpack begin, one address per row.
pub(in crate::vec_ops) type Pointers = [*const u8; GROUP_ROWS];

/// Where the eight rows begin that will be read next, to be asked for in small portions. Asked for all at
/// once, they would fill the queue to memory and stop everything until it drains.
///
/// `NEAR` if they are so short that they stay in the first-level cache until they are read; others are
/// brought to the second.
#[derive(Clone, Copy)]
pub(in crate::vec_ops) struct Ahead<const NEAR: bool>(*const u8);

const LINE: usize = 64;

impl<const NEAR: bool> Ahead<NEAR> {
    pub(in crate::vec_ops) fn new(bytes: &[u8]) -> Ahead<NEAR> {
        Ahead(bytes.as_ptr())
    }

    /// Asks for part `part` of the `n_parts` of as many bytes as eight rows have in a stored block, `at`
    /// bytes behind the start of a row. The rows lie one behind the other, so this walks straight through
    /// them.
    ///
    /// In assembly, because the compiler would gather the portions of a stored block to one burst.
    #[inline(always)]
    pub(in crate::vec_ops) fn ask(self, at: usize, block_bytes: usize, part: usize, n_parts: usize) {
        let n_lines = (GROUP_ROWS * block_bytes).div_ceil(LINE);
        let start = self.0.wrapping_add(GROUP_ROWS * at);
        for line in part * n_lines / n_parts..(part + 1) * n_lines / n_parts {
            let line = start.wrapping_add(LINE * line);
            // SAFETY: a prefetch reads nothing and cannot fault, whatever the address; SSE is part of every
            // x86-64.
            unsafe {
                match NEAR {
                    true => asm!("prefetchnta [{}]", in(reg) line, options(nostack, preserves_flags)),
                    false => asm!("prefetcht1 [{}]", in(reg) line, options(nostack, preserves_flags)),
                }
            }
        }
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
pub(super) unsafe fn load_quads(p: &Pointers, at: usize) -> __m256i {
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

/// A table of 16 bytes that nibbles index.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn nibble_table(values: &[i8; 16]) -> __m256i {
    // SAFETY: the array is 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(values.as_ptr().cast()) })
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
