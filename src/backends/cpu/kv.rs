//! Keys and values of all layers, in the layout that attention reads fastest.
//!
//! Cells come in pages of 32. Within a page, keys are transposed, `[32, k_row_elems]` with the cell fastest: a vector
//! holds one element of many keys, so that scores of a whole page come out side by side. Values are
//! `[v_row_elems, 32]`, a cell's row contiguous.

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
            let elems = n_cells.checked_mul(row_elems);
            let bytes = elems.and_then(|n| shape.format.dtype().bytes_for(n)).unwrap_or(usize::MAX);
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

    /// Writes one row of keys and one of values to `cell`. The rows have the lengths and `cell` the range of the shape.
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
        let first = page * self.shape.k_row_elems;
        self.read(kernels, &self.keys, (first + columns.start) * PAGE_TOKENS, out);
    }

    /// The elements `columns` of the values of `page`, `[stride, 32]`, as f32; elements from `columns.len()` to
    /// `stride` stay.
    pub(super) fn read_values(
        &self,
        kernels: &RowKernels,
        page: usize,
        columns: Range<usize>,
        stride: usize,
        out: &mut [f32],
    ) {
        for (lane, row) in out.chunks_exact_mut(stride).enumerate() {
            let first = (page * PAGE_TOKENS + lane) * self.shape.v_row_elems + columns.start;
            self.read(kernels, &self.values, first, &mut row[..columns.len()]);
        }
    }

    fn read(&self, kernels: &RowKernels, region: &[u8], first: usize, out: &mut [f32]) {
        let elements = first..first + out.len();
        match self.shape.format {
            KvFormat::F32 => out.copy_from_slice(&bytemuck::cast_slice(region)[elements]),
            KvFormat::F16 => (kernels.f16_to_f32)(&bytemuck::cast_slice(region)[elements], out),
        }
    }

    fn copy_cells(&mut self, from: usize, to: usize, n: usize) {
        let KvShape { k_row_elems, v_row_elems, format, .. } = self.shape;
        let elem_bytes = format.dtype().block_bytes();
        let row_bytes = v_row_elems * elem_bytes;
        self.values.copy_within(from * row_bytes..(from + n) * row_bytes, to * row_bytes);
        let page_bytes = k_row_elems * PAGE_TOKENS * elem_bytes;
        if [from, to, n].iter().all(|cells| cells.is_multiple_of(PAGE_TOKENS)) {
            let start = from / PAGE_TOKENS * page_bytes;
            let pages = start..start + n / PAGE_TOKENS * page_bytes;
            self.keys.copy_within(pages, to / PAGE_TOKENS * page_bytes);
            return;
        }
        // One cell at a time, in the order in which no source is overwritten before it is read.
        for i in 0..n {
            let i = if to > from { n - 1 - i } else { i };
            let place = |cell: usize, element: usize| {
                (cell / PAGE_TOKENS * k_row_elems + element) * PAGE_TOKENS * elem_bytes
                    + cell % PAGE_TOKENS * elem_bytes
            };
            for element in 0..k_row_elems {
                let start = place(from + i, element);
                self.keys.copy_within(start..start + elem_bytes, place(to + i, element));
            }
        }
    }
}

#[cfg(test)]
mod tests;
