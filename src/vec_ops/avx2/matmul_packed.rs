//! The two ways to use packed weights: unpacked to a panel for several tokens, or straight from the rows for one.

use std::arch::x86_64::{__m256, __m256i};

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
/// The functions are inlined into callers that have AVX2 and F16C enabled, so that an unpacked block can stay in registers.
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
    // SAFETY: the rows reach to `end`; the table with this function is only handed out where AVX2 and F16C exist.
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

/// How an instruction set multiplies one block of weights with one of activations.
pub(in crate::vec_ops) trait Multiply {
    /// # Safety
    /// The instruction set exists.
    unsafe fn block<F: Form>(w: &PanelBlock, a: &ActivationBlock) -> __m256i;
}

struct Avx2;
impl Multiply for Avx2 {
    #[inline(always)]
    unsafe fn block<F: Form>(w: &PanelBlock, a: &ActivationBlock) -> __m256i {
        // SAFETY: as for this function.
        let [sums] = unsafe { products::<F, 1>(w, &[a]) };
        sums
    }
}

pub(in crate::vec_ops) fn single<P: Packed, F: Form>(
    rows: &RowGroup<'_>,
    token: &[ActivationBlock],
    sums: &mut [f32; GROUP_ROWS],
    ahead: &[u8],
) {
    let p = checked::<P>(rows, token);
    // SAFETY: `p` was checked; the table with this function is only handed out where AVX2, FMA and F16C exist.
    unsafe {
        match is_near(rows) {
            true => single_avx2::<P, F, true>(&p, token, sums, Ahead::new(ahead)),
            false => single_avx2::<P, F, false>(&p, token, sums, Ahead::new(ahead)),
        }
    }
}

/// True if a row group fits the first-level cache together with the next.
pub(in crate::vec_ops) fn is_near(rows: &RowGroup<'_>) -> bool {
    GROUP_ROWS * rows[0].len() <= NEAR_BYTES
}

/// The rows' addresses; every row has as many blocks as the token.
pub(in crate::vec_ops) fn checked<P: Packed>(rows: &RowGroup<'_>, token: &[ActivationBlock]) -> Pointers {
    assert!(token.len().is_multiple_of(n_blocks::<P>()), "a row is whole stored blocks");
    let end = token.len() / n_blocks::<P>() * P::DTYPE.block_bytes();
    assert!(rows.iter().all(|row| row.len() >= end), "rows have as many blocks as the activations");
    rows.map(<[u8]>::as_ptr)
}

/// # Safety
/// AVX2, FMA and F16C exist; `p` is from [`checked`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn single_avx2<P: Packed, F: Form, const NEAR: bool>(
    p: &Pointers,
    token: &[ActivationBlock],
    sums: &mut [f32; GROUP_ROWS],
    ahead: Ahead<NEAR>,
) {
    // SAFETY: as for this function.
    unsafe { single_rows::<P, F, Avx2, NEAR>(p, token, sums, ahead) }
}

/// Inlined into a caller that enables what `M` needs.
///
/// # Safety
/// AVX2, FMA, F16C and the instruction set of `M` exist; `p` is from [`checked`].
#[inline(always)]
pub(in crate::vec_ops) unsafe fn single_rows<P: Packed, F: Form, M: Multiply, const NEAR: bool>(
    p: &Pointers,
    token: &[ActivationBlock],
    sums: &mut [f32; GROUP_ROWS],
    ahead: Ahead<NEAR>,
) {
    // SAFETY: as for this function.
    let mut lanes = unsafe { load_ps(sums) };
    let n_units = const { n_blocks::<P>() / P::UNIT };
    let mut at = 0;
    for stored in token.chunks_exact(n_blocks::<P>()) {
        // SAFETY: as for this function.
        let header = unsafe { P::header(p, at) };
        // Written out, so that every unit's place is a constant: LLVM keeps a loop and takes the factors from memory.
        macro_rules! add {
            ($unit:expr) => {
                // SAFETY: as for this function.
                lanes = unsafe { add_unit::<P, F, M, NEAR>(lanes, p, at, &header, $unit, stored, ahead) }
            };
        }
        for first in (0..n_units).step_by(4) {
            add!(first);
            if n_units > 1 {
                add!(first + 1);
            }
            if n_units > 2 {
                add!(first + 2);
                add!(first + 3);
            }
        }
        at += P::DTYPE.block_bytes();
    }
    // SAFETY: as for this function.
    unsafe { store_ps(sums, lanes) };
}

/// Adds the blocks of one unit of a stored block and asks for as many bytes.
///
/// # Safety
/// As for [`single_rows`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn add_unit<P: Packed, F: Form, M: Multiply, const NEAR: bool>(
    mut lanes: __m256,
    p: &Pointers,
    at: usize,
    header: &P::Header,
    unit: usize,
    stored: &[ActivationBlock],
    ahead: Ahead<NEAR>,
) -> __m256 {
    let mut blocks = [PanelBlock::ZERO; MAX_UNIT];
    // SAFETY: as for this function.
    unsafe { P::unit(p, at, header, unit, &mut blocks[..P::UNIT]) };
    for (i, (w, a)) in blocks.iter().zip(&stored[unit * P::UNIT..][..P::UNIT]).enumerate() {
        ahead.ask(at, P::DTYPE.block_bytes(), unit * P::UNIT + i, n_blocks::<P>());
        // SAFETY: as for this function.
        lanes = unsafe { add_block::<F>(lanes, M::block::<F>(w, a), w, a) };
    }
    lanes
}
