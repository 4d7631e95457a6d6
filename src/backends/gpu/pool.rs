//! Buffers in the device's memory.

use super::device::Gpu;
use crate::backends::pool;
use crate::graph::BackendError;

/// All buffers of a context ever made, in use or spare.
pub(super) type Pool = pool::Pool<wgpu::Buffer>;

/// What values, keys and values, and tables are used for.
pub(super) const USAGE: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

impl pool::Memory for wgpu::Buffer {
    fn len_bytes(&self) -> usize {
        self.size() as usize
    }
}

/// Makes a buffer.
pub(super) fn make(gpu: &Gpu, bytes: usize) -> Result<wgpu::Buffer, BackendError> {
    gpu.create_buffer(bytes, USAGE, "a buffer")
}
