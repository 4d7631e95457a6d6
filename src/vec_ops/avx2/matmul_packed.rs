//! The two ways to use packed weights: unpacked to a panel for several tokens, or straight from the rows for one.

use super::matmul::{add_block, load_ps, products};
use super::matmul_lanes::{Ahead, Pointers, store_ps};
use crate::tensor::DType;
use crate::vec_ops::matmul::panel::{ActivationBlock, BLOCK, Form, GROUP_ROWS, PanelBlock, RowGroup};

/// Most blocks in a unit.
const MAX_UNIT: usize = 4;

/// How a type is unpacked, in units: the blocks of 32 that share packed bytes.
///
/// The functions are inlined into callers that have AVX2 and F16C enabled, so that an unpacked block can stay in registers.
pub(super) trait Packed {
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

pub(super) fn unpack<P: Packed>(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock], ahead: &[u8]) {
    let whole = |n: usize| n.is_multiple_of(n_blocks::<P>());
    assert!(whole(first) && whole(panel.len()), "whole stored blocks are unpacked");
    let stored_bytes = |n: usize| n / n_blocks::<P>() * P::DTYPE.block_bytes();
    let end = stored_bytes(first + panel.len());
    assert!(rows.iter().all(|row| row.len() >= end), "rows hold the blocks asked for");
    let ahead = Ahead::new(ahead, panel.len());
    // SAFETY: the rows reach to `end`; the table with this function is only handed out where AVX2 and F16C exist.
    unsafe { unpack_rows::<P>(&rows.map(<[u8]>::as_ptr), stored_bytes(first), panel, ahead) };
}

/// # Safety
/// AVX2 and F16C exist; the panel's blocks are readable from `at` on behind every pointer.
#[target_feature(enable = "avx2,f16c")]
unsafe fn unpack_rows<P: Packed>(p: &Pointers, mut at: usize, panel: &mut [PanelBlock], ahead: Ahead) {
    let mut step = 0;
    for stored in panel.chunks_exact_mut(n_blocks::<P>()) {
        // SAFETY: as for this function.
        let header = unsafe { P::header(p, at) };
        for (unit, out) in stored.chunks_exact_mut(P::UNIT).enumerate() {
            for _ in 0..P::UNIT {
                ahead.ask(step);
                step += 1;
            }
            // SAFETY: as for this function.
            unsafe { P::unit(p, at, &header, unit, out) };
        }
        at += P::DTYPE.block_bytes();
    }
}

pub(super) fn single<P: Packed, F: Form>(
    rows: &RowGroup<'_>,
    token: &[ActivationBlock],
    sums: &mut [f32; GROUP_ROWS],
    ahead: &[u8],
) {
    assert!(token.len().is_multiple_of(n_blocks::<P>()), "a row is whole stored blocks");
    let end = token.len() / n_blocks::<P>() * P::DTYPE.block_bytes();
    assert!(rows.iter().all(|row| row.len() >= end), "rows have as many blocks as the activations");
    let ahead = Ahead::new(ahead, token.len());
    // SAFETY: the rows reach to `end`; the table with this function is only handed out where AVX2, FMA and F16C exist.
    unsafe { single_rows::<P, F>(&rows.map(<[u8]>::as_ptr), token, sums, ahead) };
}

/// # Safety
/// AVX2, FMA and F16C exist; the token's number of blocks is readable behind every pointer.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn single_rows<P: Packed, F: Form>(
    p: &Pointers,
    token: &[ActivationBlock],
    sums: &mut [f32; GROUP_ROWS],
    ahead: Ahead,
) {
    let mut lanes = load_ps(sums);
    let (mut at, mut step) = (0, 0);
    for stored in token.chunks_exact(n_blocks::<P>()) {
        // SAFETY: as for this function.
        let header = unsafe { P::header(p, at) };
        for (unit, tokens) in stored.chunks_exact(P::UNIT).enumerate() {
            let mut blocks = [PanelBlock::ZERO; MAX_UNIT];
            // SAFETY: as for this function.
            unsafe { P::unit(p, at, &header, unit, &mut blocks[..P::UNIT]) };
            for i in 0..P::UNIT {
                ahead.ask(step);
                step += 1;
                let [products] = products::<F, 1>(&blocks[i], &[&tokens[i]]);
                lanes = add_block::<F>(lanes, products, &blocks[i], &tokens[i]);
            }
        }
        at += P::DTYPE.block_bytes();
    }
    store_ps(sums, lanes);
}
