//! Memory for what passes between two kernels of one node.

use super::device::Gpu;
use super::pool::USAGE;
use crate::graph::{BackendError, size_class};

/// One buffer, which the nodes of a context use one after the other.
#[derive(Default)]
pub(super) struct Scratch {
    buffer: Option<wgpu::Buffer>,
}

impl Scratch {
    /// A buffer of at least `bytes`. Work that was recorded with a smaller one keeps it.
    pub(super) fn get(&mut self, gpu: &Gpu, bytes: usize) -> Result<wgpu::Buffer, BackendError> {
        match &self.buffer {
            Some(buffer) if buffer.size() >= bytes as u64 => Ok(buffer.clone()),
            _ => {
                let buffer = gpu.create_buffer(size_class(bytes), USAGE, "partial results")?;
                Ok(self.buffer.insert(buffer).clone())
            }
        }
    }

    /// Bytes of the buffer.
    pub(super) fn bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.size() as usize)
    }
}
