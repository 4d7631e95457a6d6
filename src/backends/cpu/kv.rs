//! Keys and values of all layers, in the layout that attention reads fastest.
//!
//! Cells come in pages of 32. Within a page, keys are transposed, `[32, k_row_elems]` with the cell fastest:
//! a vector holds one element of many keys, so that scores of a whole page come out side by side. Values are
//! `[v_row_elems, 32]`, a cell's row contiguous. Quantised elements lie as [`q8_0`] says.

mod q8_0;

use std::collections::BTreeMap;
use std::ops::Range;

use half::f16;

use super::NAME;
use super::memory::AlignedBytes;
use crate::graph::{BackendError, KvFormat, KvShape, PAGE_TOKENS};
use crate::vec_ops::rows::RowKernels;

/// The regions of one layer.
pub(super) struct KvLayer {
    shape: KvShape,
    keys: AlignedBytes,
    values: AlignedBytes,
}

/// All layers' regions.
#[derive(Default)]
pub(super) struct KvRegions {
    layers: BTreeMap<u32, KvLayer>,
}

impl KvRegions {
    /// Makes zeroed regions for `layer`; regions that it had before are dropped.
    pub(super) fn alloc(&mut self, layer: u32, shape: KvShape) -> Result<(), BackendError> {
        let region = |row_elems: usize| {
            let n_cells = shape.n_cells.next_multiple_of(PAGE_TOKENS);
            let row_bytes = shape.format.row_bytes(row_elems);
            let bytes = row_bytes.and_then(|n| n.checked_mul(n_cells)).unwrap_or(usize::MAX);
            let what = "keys and values";
            AlignedBytes::zeroed(bytes).ok_or(BackendError::OutOfMemory { backend: NAME, bytes, what })
        };
        let (keys, values) = (region(shape.k_row_elems)?, region(shape.v_row_elems)?);
        self.layers.insert(layer, KvLayer { shape, keys, values });
        Ok(())
    }

    /// The regions of `layer`.
    pub(super) fn get(&self, layer: u32) -> Option<&KvLayer> {
        self.layers.get(&layer)
    }

    /// The regions of `layer`, for writing.
    pub(super) fn get_mut(&mut self, layer: u32) -> Option<&mut KvLayer> {
        self.layers.get_mut(&layer)
    }

    /// Copies cells `from..from + n` to `to..to + n` in every layer.
    pub(super) fn copy_cells(&mut self, from: usize, to: usize, n: usize) -> Result<(), BackendError> {
        let n_cells = |layer: &KvLayer| layer.shape.n_cells;
        let size = self.layers.values().map(n_cells).min().unwrap_or(0);
        let end = from.max(to).checked_add(n);
        if end.is_none_or(|end| end > size) {
            let offset = from.max(to);
            return Err(BackendError::OutOfRange { backend: NAME, buffer: 0, offset, len: n, size });
        }
        for layer in self.layers.values_mut() {
            layer.copy_cells(from, to, n);
        }
        Ok(())
    }
}

impl KvLayer {
    /// What the regions hold.
    pub(super) fn shape(&self) -> &KvShape {
        &self.shape
    }

    /// Writes one row of keys and one of values to `cell`. The rows have the lengths and `cell` the range of
    /// the shape.
    pub(super) fn store(&mut self, kernels: &RowKernels, cell: usize, key: &[f32], value: &[f32]) {
        let (page, lane) = (cell / PAGE_TOKENS, cell % PAGE_TOKENS);
        let first_key = page * PAGE_TOKENS * key.len() + lane;
        let value_row = cell * value.len()..(cell + 1) * value.len();
        match self.shape.format {
            KvFormat::F32 => {
                let keys = bytemuck::cast_slice_mut::<u8, f32>(&mut self.keys);
                for (i, element) in key.iter().enumerate() {
                    keys[first_key + i * PAGE_TOKENS] = *element;
                }
                bytemuck::cast_slice_mut(&mut self.values)[value_row].copy_from_slice(value);
            }
            KvFormat::F16 => {
                let keys = bytemuck::cast_slice_mut::<u8, f16>(&mut self.keys);
                let mut halves = [f16::ZERO; 64];
                for (block, elements) in key.chunks(halves.len()).enumerate() {
                    (kernels.f32_to_f16)(elements, &mut halves);
                    let first = first_key + block * halves.len() * PAGE_TOKENS;
                    for (i, half) in halves[..elements.len()].iter().enumerate() {
                        keys[first + i * PAGE_TOKENS] = *half;
                    }
                }
                (kernels.f32_to_f16)(value, &mut bytemuck::cast_slice_mut(&mut self.values)[value_row]);
            }
            KvFormat::Q8_0 => {
                let (keys, row) = (self.key_page(page), self.value_row(cell));
                q8_0::store_key(kernels, &mut self.keys[keys], lane, key);
                q8_0::store_value(kernels, &mut self.values[row], value);
            }
        }
    }

    /// The elements `columns` of the keys of `page`, `[32, columns.len()]` with the cell fastest, as f32.
    pub(super) fn read_keys(
        &self,
        kernels: &RowKernels,
        page: usize,
        columns: Range<usize>,
        out: &mut [f32],
    ) {
        let row_elems = self.shape.k_row_elems;
        let first = (page * row_elems + columns.start) * PAGE_TOKENS;
        let elements = first..first + out.len();
        match self.shape.format {
            KvFormat::F32 => out.copy_from_slice(&bytemuck::cast_slice(&self.keys)[elements]),
            KvFormat::F16 => (kernels.f16_to_f32)(&bytemuck::cast_slice(&self.keys)[elements], out),
            KvFormat::Q8_0 => {
                q8_0::read_keys(kernels, &self.keys[self.key_page(page)], row_elems, columns.start, out);
            }
        }
    }

    /// The elements `columns` of the values of `page`, `[stride, 32]`, as f32; elements from `columns.len()`
    /// to `stride` stay.
    pub(super) fn read_values(
        &self,
        kernels: &RowKernels,
        page: usize,
        columns: Range<usize>,
        stride: usize,
        out: &mut [f32],
    ) {
        for (lane, row) in out.chunks_exact_mut(stride).enumerate() {
            let (cell, out) = (page * PAGE_TOKENS + lane, &mut row[..columns.len()]);
            let first = cell * self.shape.v_row_elems + columns.start;
            let elements = first..first + out.len();
            match self.shape.format {
                KvFormat::F32 => out.copy_from_slice(&bytemuck::cast_slice(&self.values)[elements]),
                KvFormat::F16 => (kernels.f16_to_f32)(&bytemuck::cast_slice(&self.values)[elements], out),
                KvFormat::Q8_0 => {
                    q8_0::read_value(kernels, &self.values[self.value_row(cell)], columns.start, out);
                }
            }
        }
    }

    /// The bytes of the keys of `page`.
    fn key_page(&self, page: usize) -> Range<usize> {
        let page_bytes = self.row_bytes(self.shape.k_row_elems) * PAGE_TOKENS;
        page * page_bytes..(page + 1) * page_bytes
    }

    /// The bytes of the values of `cell`.
    fn value_row(&self, cell: usize) -> Range<usize> {
        let row_bytes = self.row_bytes(self.shape.v_row_elems);
        cell * row_bytes..(cell + 1) * row_bytes
    }

    fn row_bytes(&self, row_elems: usize) -> usize {
        let dtype = self.shape.format.dtype();
        row_elems / dtype.block_elems() * dtype.block_bytes()
    }

    /// What a page of keys consists of.
    fn key_planes(&self) -> [KeyPlane; 2] {
        let n_rows = self.shape.k_row_elems;
        match self.shape.format {
            KvFormat::F32 => [KeyPlane { lane_bytes: 4, n_rows }, KeyPlane::NONE],
            KvFormat::F16 => [KeyPlane { lane_bytes: 2, n_rows }, KeyPlane::NONE],
            KvFormat::Q8_0 => {
                let n_blocks = n_rows / self.shape.format.block_elems();
                [KeyPlane { lane_bytes: 1, n_rows }, KeyPlane { lane_bytes: 2, n_rows: n_blocks }]
            }
        }
    }

    fn copy_cells(&mut self, from: usize, to: usize, n: usize) {
        let [from_row, end_row, to_row] = [from, from + n, to].map(|cell| self.value_row(cell).start);
        self.values.copy_within(from_row..end_row, to_row);
        if [from, to, n].iter().all(|cells| cells.is_multiple_of(PAGE_TOKENS)) {
            let pages = [from, from + n, to].map(|cell| self.key_page(cell / PAGE_TOKENS).start);
            let [from_page, end_page, to_page] = pages;
            self.keys.copy_within(from_page..end_page, to_page);
            return;
        }
        // One cell at a time, in the order in which no source is overwritten before it is read.
        for i in 0..n {
            let i = if to > from { n - 1 - i } else { i };
            self.copy_key(from + i, to + i);
        }
    }

    fn copy_key(&mut self, from: usize, to: usize) {
        let [from_page, to_page] = [from, to].map(|cell| self.key_page(cell / PAGE_TOKENS).start);
        let mut first = 0;
        for KeyPlane { lane_bytes, n_rows } in self.key_planes() {
            for row in 0..n_rows {
                let place = |page: usize, cell: usize| {
                    page + first + (row * PAGE_TOKENS + cell % PAGE_TOKENS) * lane_bytes
                };
                let source = place(from_page, from);
                self.keys.copy_within(source..source + lane_bytes, place(to_page, to));
            }
            first += n_rows * PAGE_TOKENS * lane_bytes;
        }
    }
}

/// Numbers of one size in a page of keys, `[32, n_rows]`.
struct KeyPlane {
    lane_bytes: usize,
    n_rows: usize,
}

impl KeyPlane {
    const NONE: KeyPlane = KeyPlane { lane_bytes: 0, n_rows: 0 };
}

#[cfg(test)]
mod tests;
