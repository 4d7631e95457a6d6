//! The buffer pool: buffers by size class, reused before new ones are made, never moved.

use super::device::Gpu;
use crate::graph::{BackendError, BufferId, size_class};

/// A buffer and whether it is in use.
struct Pooled {
    buffer: wgpu::Buffer,
    in_use: bool,
}

/// All buffers ever made, in use or spare.
#[derive(Default)]
pub(super) struct Pool {
    buffers: Vec<Pooled>,
}

/// What values, keys and values, and tables are used for.
pub(super) const USAGE: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

impl Pool {
    /// A buffer of at least `bytes`.
    pub(super) fn alloc(&mut self, gpu: &Gpu, bytes: usize) -> Result<BufferId, BackendError> {
        let bytes = size_class(bytes);
        let fits = |pooled: &Pooled| !pooled.in_use && pooled.buffer.size() == bytes as u64;
        if let Some(index) = self.buffers.iter().position(fits) {
            self.buffers[index].in_use = true;
            return Ok(BufferId(index as u32));
        }
        let buffer = gpu.create_buffer(bytes, USAGE, "a buffer")?;
        self.buffers.push(Pooled { buffer, in_use: true });
        Ok(BufferId(self.buffers.len() as u32 - 1))
    }

    /// Makes a buffer spare.
    pub(super) fn free(&mut self, id: BufferId) {
        if let Some(pooled) = self.buffers.get_mut(id.0 as usize) {
            pooled.in_use = false;
        }
    }

    /// Bytes of all buffers.
    pub(super) fn bytes(&self) -> usize {
        self.buffers.iter().map(|pooled| pooled.buffer.size() as usize).sum()
    }

    /// A buffer that is in use and has the bytes `offset..offset + len`.
    pub(super) fn get(
        &self,
        backend: &'static str,
        id: BufferId,
        offset: usize,
        len: usize,
    ) -> Result<&wgpu::Buffer, BackendError> {
        let size = match self.buffers.get(id.0 as usize) {
            Some(pooled) if pooled.in_use => pooled.buffer.size() as usize,
            _ => 0,
        };
        match (offset.checked_add(len), self.buffers.get(id.0 as usize)) {
            (Some(end), Some(pooled)) if end <= size => Ok(&pooled.buffer),
            _ => Err(BackendError::OutOfRange { backend, buffer: id.0, offset, len, size }),
        }
    }
}
