//! Numbered buffers without memory.

use crate::graph::{BackendError, BufferId};

/// A buffer: its size, and whether it is in use.
struct Buffer {
    bytes: usize,
    in_use: bool,
}

/// All buffers ever made.
#[derive(Default)]
pub(super) struct Pool {
    buffers: Vec<Buffer>,
}

impl Pool {
    /// A buffer of `bytes`, and whether it had to be made.
    pub(super) fn alloc(&mut self, bytes: usize) -> (BufferId, bool) {
        let spare = self.buffers.iter().position(|buffer| !buffer.in_use && buffer.bytes == bytes);
        match spare {
            Some(index) => {
                self.buffers[index].in_use = true;
                (BufferId(index as u32), false)
            }
            None => {
                self.buffers.push(Buffer { bytes, in_use: true });
                (BufferId(self.buffers.len() as u32 - 1), true)
            }
        }
    }

    pub(super) fn free(&mut self, id: BufferId) {
        if let Some(buffer) = self.buffers.get_mut(id.0 as usize) {
            buffer.in_use = false;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.bytes).sum()
    }

    /// The access lies within a buffer that is in use.
    pub(super) fn check(&self, id: BufferId, offset: usize, len: usize) -> Result<(), BackendError> {
        let size = match self.buffers.get(id.0 as usize) {
            Some(buffer) if buffer.in_use => buffer.bytes,
            _ => 0,
        };
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(BackendError::OutOfRange { backend: "null", buffer: id.0, offset, len, size }),
        }
    }
}
