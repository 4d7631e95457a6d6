//! The two ways to use packed weights: unpacked to a panel for several tokens, or straight from the rows for
//! one.

use std::arch::x86_64::{__m256, __m256i, _mm256_setzero_ps};

use super::matmul::{add_block, load_ps, products};
use super::matmul_lanes::{Ahead, Pointers, store_ps};
use crate::tensor::DType;
use crate::vec_ops::matmul::panel::{ActivationBlock, BLOCK, Form, GROUP_ROWS, PanelBlock, RowGroup};

/// Most blocks in a unit.
const MAX_UNIT: usize = 4;

/// Bytes of a row group that fit the first-level cache together with those of the next.
const NEAR_BYTES: usize = 14 << 10;

/// How a type is unpacked, in units: the blocks of 32 that share packed bytes.
///
/// The functions are inlined into callers that have AVX2 and F16C enabled, so that an unpacked block can stay
/// in registers.
pub(in crate::vec_ops) trait Packed {
    const DTYPE: DType;

    /// Blocks per unit, 1 to [`MAX_UNIT`].
    const UNIT: usize;

    /// What a stored block holds for all of its units.
    type Header;

    /// # Safety
    /// AVX2 and F16C exist; a stored block is readable `at` bytes behind every pointer.
    unsafe fn header(p: &Pointers, at: usize) -> Self::Header;

    /// Unpacks unit `unit` of the stored block into `out`, which has [`Packed::UNIT`] elements.
    ///
    /// # Safety
    /// As for [`Packed::header`], which the header is from.
    unsafe fn unit(p: &Pointers, at: usize, header: &Self::Header, unit: usize, out: &mut [PanelBlock]);
}

/// Blocks of 32 per stored block.
const fn n_blocks<P: Packed>() -> usize {
    P::DTYPE.block_elems() / BLOCK
}

pub(in crate::vec_ops) fn unpack<P: Packed>(
    rows: &RowGroup<'_>,
    first: usize,
    panel: &mut [PanelBlock],
    ahead: &[u8],
) {
    let whole = |n: usize| n.is_multiple_of(n_blocks::<P>());
    assert!(whole(first) && whole(panel.len()), "whole stored blocks are unpacked");
    let stored_bytes = |n: usize| n / n_blocks::<P>() * P::DTYPE.block_bytes();
    let end = stored_bytes(first + panel.len());
    assert!(rows.iter().all(|row| row.len() >= end), "rows hold the blocks asked for");
    let ahead = Ahead::new(ahead);
    // SAFETY: the rows reach to `end`; the table with this function is only handed out where AVX2 and F16C
    // exist.
    unsafe { unpack_rows::<P>(&rows.map(<[u8]>::as_ptr), stored_bytes(first), panel, ahead) };
}

/// # Safety
/// AVX2 and F16C exist; the panel's blocks are readable from `at` on behind every pointer.
#[target_feature(enable = "avx2,f16c")]
unsafe fn unpack_rows<P: Packed>(p: &Pointers, mut at: usize, panel: &mut [PanelBlock], ahead: Ahead<false>) {
    for stored in panel.chunks_exact_mut(n_blocks::<P>()) {
        // SAFETY: as for this function.
        let header = unsafe { P::header(p, at) };
        for (unit, out) in stored.chunks_exact_mut(P::UNIT).enumerate() {
            ahead.ask(at, P::DTYPE.block_bytes(), unit, n_blocks::<P>() / P::UNIT);
            // SAFETY: as for this function.
            unsafe { P::unit(p, at, &header, unit, out) };
        }
        at += P::DTYPE.block_bytes();
    }
}

/// How an instruction set multiplies one block of weights with one of each of the activations.
pub(in crate::vec_ops) trait Multiply {
    /// # Safety
    /// The instruction set exists.
    unsafe fn block<F: Form, const T: usize>(w: &PanelBlock, a: &[&ActivationBlock; T]) -> [__m256i; T];
}

struct Avx2;
impl Multiply for Avx2 {
    #[inline(always)]
    unsafe fn block<F: Form, const T: usize>(w: &PanelBlock, a: &[&ActivationBlock; T]) -> [__m256i; T] {
        // SAFETY: as for this function.
        unsafe { products::<F, T>(w, a) }
    }
}

pub(in crate::vec_ops) fn single<P: Packed, F: Form>(
    rows: &RowGroup<'_>,
    vectors: &[&[ActivationBlock]],
    sums: &mut [[f32; GROUP_ROWS]],
    ahead: &[u8],
) {
    // SAFETY: the table with this function is only handed out where AVX2, FMA and F16C exist.
    unsafe {
        match *vectors {
            [a] => single_avx2::<P, F, 1>(rows, [a], sums, ahead),
            [a, b] => single_avx2::<P, F, 2>(rows, [a, b], sums, ahead),
            _ => unreachable!("a token has 1 or 2 planes"),
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn single_avx2<P: Packed, F: Form, const T: usize>(
    rows: &RowGroup<'_>,
    vectors: [&[ActivationBlock]; T],
    sums: &mut [[f32; GROUP_ROWS]],
    ahead: &[u8],
) {
    // SAFETY: this function enables these extensions.
    unsafe { single_rows::<P, F, Avx2, T>(rows, vectors, sums, ahead) }
}

/// Adds the products of eight rows and `T` vectors, with weights that stay in registers between unpacking and
/// use.
///
/// Inlined into a caller that enables what `M` needs.
///
/// # Safety
/// AVX2, FMA, F16C and the instruction set of `M` exist.
#[inline(always)]
pub(in crate::vec_ops) unsafe fn single_rows<P: Packed, F: Form, M: Multiply, const T: usize>(
    rows: &RowGroup<'_>,
    vectors: [&[ActivationBlock]; T],
    sums: &mut [[f32; GROUP_ROWS]],
    ahead: &[u8],
) {
    let n = vectors[0].len();
    assert!(n.is_multiple_of(n_blocks::<P>()), "a row is whole stored blocks");
    let end = n / n_blocks::<P>() * P::DTYPE.block_bytes();
    assert!(rows.iter().all(|row| row.len() >= end), "rows have as many blocks as the activations");
    assert!(vectors.iter().all(|a| a.len() == n) && sums.len() == T, "vectors and sums fit each other");
    let p = rows.map(<[u8]>::as_ptr);
    // SAFETY: as for this function; the rows and the vectors have `n` blocks.
    unsafe {
        match GROUP_ROWS * end <= NEAR_BYTES {
            true => walk::<P, F, M, T, true>(&p, &vectors, sums, Ahead::new(ahead)),
            false => walk::<P, F, M, T, false>(&p, &vectors, sums, Ahead::new(ahead)),
        }
    }
}

/// Goes through the stored blocks of eight rows.
///
/// # Safety
/// As for [`single_rows`], which has checked the lengths.
#[inline(always)]
unsafe fn walk<P: Packed, F: Form, M: Multiply, const T: usize, const NEAR: bool>(
    p: &Pointers,
    vectors: &[&[ActivationBlock]; T],
    sums: &mut [[f32; GROUP_ROWS]],
    ahead: Ahead<NEAR>,
) {
    // SAFETY: as for this function.
    let mut lanes = [unsafe { _mm256_setzero_ps() }; T];
    for t in 0..T {
        // SAFETY: as for this function.
        lanes[t] = unsafe { load_ps(&sums[t]) };
    }
    let n_units = const { n_blocks::<P>() / P::UNIT };
    let mut at = 0;
    for first in (0..vectors[0].len()).step_by(n_blocks::<P>()) {
        // SAFETY: as for this function.
        let header = unsafe { P::header(p, at) };
        // Written out, so that every unit's place is a constant: LLVM keeps a loop and takes the factors from
        // memory.
        macro_rules! add_unit {
            ($unit:expr) => {
                // SAFETY: as for this function.
                unsafe {
                    add_unit::<P, F, M, T, NEAR>(&mut lanes, p, at, &header, $unit, vectors, first, ahead)
                }
            };
        }
        for unit in (0..n_units).step_by(4) {
            add_unit!(unit);
            if n_units > 1 {
                add_unit!(unit + 1);
            }
            if n_units > 2 {
                add_unit!(unit + 2);
                add_unit!(unit + 3);
            }
        }
        at += P::DTYPE.block_bytes();
    }
    for t in 0..T {
        // SAFETY: as for this function.
        unsafe { store_ps(&mut sums[t], lanes[t]) };
    }
}

/// Adds the blocks of one unit of a stored block, which is block `first` of the vectors, and asks for as many
/// bytes.
///
/// # Safety
/// As for [`walk`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn add_unit<P: Packed, F: Form, M: Multiply, const T: usize, const NEAR: bool>(
    lanes: &mut [__m256; T],
    p: &Pointers,
    at: usize,
    header: &P::Header,
    unit: usize,
    vectors: &[&[ActivationBlock]; T],
    first: usize,
    ahead: Ahead<NEAR>,
) {
    let mut blocks = [PanelBlock::ZERO; MAX_UNIT];
    // SAFETY: as for this function.
    unsafe { P::unit(p, at, header, unit, &mut blocks[..P::UNIT]) };
    // Written out for the same reason as the units.
    macro_rules! add {
        ($($i:literal)*) => { $(
            if $i < P::UNIT {
                let (w, block) = (&blocks[$i], unit * P::UNIT + $i);
                ahead.ask(at, P::DTYPE.block_bytes(), block, n_blocks::<P>());
                let mut a = [&ActivationBlock::ZERO; T];
                for t in 0..T {
                    // SAFETY: every vector has as many blocks as the rows.
                    a[t] = unsafe { vectors[t].get_unchecked(first + block) };
                }
                // SAFETY: as for this function.
                let products = unsafe { M::block::<F, T>(w, &a) };
                for t in 0..T {
                    // SAFETY: as for this function.
                    lanes[t] = unsafe { add_block::<F>(lanes[t], products[t], w, a[t]) };
                }
            }
        )* };
    }
    add!(0 1 2 3);
}
