//! Keys and values in blocks of 32 elements with a scale.
//!
//! The keys of a page are their quants, `[32, k_row_elems] i8`, then their scales,
//! `[32, k_row_elems / 32] f16`, both with the cell fastest. Values are rows of blocks as files have them.

use half::f16;

use crate::graph::PAGE_TOKENS;
use crate::tensor::{Block, BlockQ8_0, QK};
use crate::vec_ops::rows::RowKernels;

/// Writes a key to lane `lane` of its page.
pub(super) fn store_key(kernels: &RowKernels, page: &mut [u8], lane: usize, key: &[f32]) {
    let (quants, scales) = page.split_at_mut(key.len() * PAGE_TOKENS);
    let quants: &mut [i8] = bytemuck::cast_slice_mut(quants);
    let scales: &mut [f16] = bytemuck::cast_slice_mut(scales);
    let lanes = quants.chunks_exact_mut(QK * PAGE_TOKENS).zip(scales.chunks_exact_mut(PAGE_TOKENS));
    for (elements, (quants, scales)) in key.chunks_exact(QK).zip(lanes) {
        let mut block = [bytemuck::Zeroable::zeroed()];
        (kernels.f32_to_q8_0)(elements, &mut block);
        let [BlockQ8_0 { d, qs }] = block;
        scales[lane] = f16::from_bits(d.bits());
        for (quants, quant) in quants.chunks_exact_mut(PAGE_TOKENS).zip(qs) {
            quants[lane] = quant;
        }
    }
}

/// Writes a row of values.
pub(super) fn store_value(kernels: &RowKernels, row: &mut [u8], value: &[f32]) {
    (kernels.f32_to_q8_0)(value, bytemuck::cast_slice_mut(row));
}

/// The elements from `first` on, a multiple of 32, of the keys of a page with rows of `row_elems`, `[32, n]`.
pub(super) fn read_keys(kernels: &RowKernels, page: &[u8], row_elems: usize, first: usize, out: &mut [f32]) {
    let (quants, scales) = page.split_at(row_elems * PAGE_TOKENS);
    let quants: &[i8] = bytemuck::cast_slice(&quants[first * PAGE_TOKENS..][..out.len()]);
    let scales: &[f16] = bytemuck::cast_slice(scales);
    let scales = scales[first / QK * PAGE_TOKENS..].chunks_exact(PAGE_TOKENS);
    let blocks = quants.chunks_exact(QK * PAGE_TOKENS).zip(out.chunks_exact_mut(QK * PAGE_TOKENS));
    for (scales, (quants, out)) in scales.zip(blocks) {
        let mut wide = [0.0; PAGE_TOKENS];
        (kernels.f16_to_f32)(scales, &mut wide);
        (kernels.i8_to_f32)(quants, &wide, out);
    }
}

/// The elements from `first` on, a multiple of 32, of a row of values.
pub(super) fn read_value(kernels: &RowKernels, row: &[u8], first: usize, out: &mut [f32]) {
    let blocks: &[BlockQ8_0] = bytemuck::cast_slice(&row[first / QK * BlockQ8_0::DTYPE.block_bytes()..]);
    for (block, out) in blocks.iter().zip(out.chunks_exact_mut(QK)) {
        (kernels.i8_to_f32)(&block.qs, &[block.d.to_f32(); QK], out);
    }
}
