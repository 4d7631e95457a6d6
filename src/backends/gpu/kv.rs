//! Keys and values of all layers on the device.
//!
//! A region holds one row per cell. f32 rows are plain. f16 rows are pairs of halves in words, the first in
//! the low half. Q8_0 regions hold the 8-bit numbers of all cells, four in a word with the first lowest, and
//! after them the scales of all blocks of 32 as f32, each rounded to f16 first: the numbers of GGUF's blocks
//! in another order.

use std::collections::BTreeMap;

use super::device::Gpu;
use super::pool::USAGE;
use crate::graph::{BackendError, KvFormat, KvShape, PAGE_TOKENS};

/// The regions of one layer.
pub(super) struct KvLayer {
    pub(super) shape: KvShape,
    pub(super) keys: wgpu::Buffer,
    pub(super) values: wgpu::Buffer,
}

/// A stretch of a region that belongs to consecutive cells: first byte and bytes per cell.
pub(super) struct Plane {
    pub(super) start_bytes: usize,
    pub(super) cell_bytes: usize,
}

/// All layers' regions.
#[derive(Default)]
pub(super) struct KvRegions {
    layers: BTreeMap<u32, KvLayer>,
}

impl KvRegions {
    /// Makes zeroed regions for `layer`; regions that it had before are dropped.
    pub(super) fn alloc(&mut self, gpu: &Gpu, layer: u32, shape: KvShape) -> Result<(), BackendError> {
        let n_cells = shape.n_cells.next_multiple_of(PAGE_TOKENS);
        let shape = KvShape { n_cells, ..shape };
        let region = |row_elems: usize| {
            let bytes = planes(&shape, row_elems).iter().map(|plane| plane.cell_bytes * n_cells).sum();
            if bytes > gpu.max_binding_bytes() {
                let what = "keys or values of a layer, which may not be larger than a binding";
                return Err(BackendError::OutOfMemory { backend: gpu.label(), bytes, what });
            }
            gpu.create_buffer(bytes, USAGE, "keys and values")
        };
        let (keys, values) = (region(shape.k_row_elems)?, region(shape.v_row_elems)?);
        self.layers.insert(layer, KvLayer { shape, keys, values });
        Ok(())
    }

    /// The regions of `layer`.
    pub(super) fn get(&self, layer: u32) -> Option<&KvLayer> {
        self.layers.get(&layer)
    }

    /// Every layer's regions.
    pub(super) fn layers(&self) -> impl Iterator<Item = &KvLayer> {
        self.layers.values()
    }

    /// Cells that every layer has.
    pub(super) fn n_cells(&self) -> usize {
        self.layers.values().map(|layer| layer.shape.n_cells).min().unwrap_or(0)
    }
}

/// The stretches of a region with rows of `row_elems`.
pub(super) fn planes(shape: &KvShape, row_elems: usize) -> Vec<Plane> {
    let plane = |start_bytes, cell_bytes| Plane { start_bytes, cell_bytes };
    match shape.format {
        KvFormat::F32 => vec![plane(0, row_elems * 4)],
        KvFormat::F16 => vec![plane(0, row_elems * 2)],
        KvFormat::Q8_0 => {
            let scales_start = shape.n_cells * row_elems;
            vec![plane(0, row_elems), plane(scales_start, row_elems / shape.format.block_elems() * 4)]
        }
    }
}
