//! The buffer pool: buffers by size class, reused before new ones are made, never moved.

use super::memory::AlignedBytes;
use super::values::Values;
use super::{NAME, values};
use crate::graph::{BackendError, BufferId, NodeCall, size_class};

/// A buffer and whether it is in use.
struct Buffer {
    memory: AlignedBytes,
    in_use: bool,
}

/// All buffers ever made, in use or spare.
#[derive(Default)]
pub(super) struct Pool {
    buffers: Vec<Buffer>,
}

impl Pool {
    /// A buffer of at least `bytes`.
    pub(super) fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        let bytes = size_class(bytes);
        let fits = |buffer: &Buffer| !buffer.in_use && buffer.memory.len() == bytes;
        if let Some(index) = self.buffers.iter().position(fits) {
            self.buffers[index].in_use = true;
            return Ok(BufferId(index as u32));
        }
        let memory = AlignedBytes::zeroed(bytes);
        let memory = memory.ok_or(BackendError::OutOfMemory { backend: NAME, bytes, what: "a buffer" })?;
        self.buffers.push(Buffer { memory, in_use: true });
        Ok(BufferId(self.buffers.len() as u32 - 1))
    }

    /// Makes a buffer spare.
    pub(super) fn free(&mut self, id: BufferId) {
        if let Some(buffer) = self.buffers.get_mut(id.0 as usize) {
            buffer.in_use = false;
        }
    }

    /// Bytes of all buffers.
    pub(super) fn bytes(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.memory.len()).sum()
    }

    /// The bytes `offset..offset + len` of a buffer that is in use.
    pub(super) fn range(
        &mut self,
        id: BufferId,
        offset: usize,
        len: usize,
    ) -> Result<&mut [u8], BackendError> {
        Ok(&mut self.checked(id, offset, len)?[offset..offset + len])
    }

    /// The memory of a buffer that is in use and has the bytes `offset..offset + len`.
    fn checked(
        &mut self,
        id: BufferId,
        offset: usize,
        len: usize,
    ) -> Result<&mut AlignedBytes, BackendError> {
        let out_of_range =
            |size| Err(BackendError::OutOfRange { backend: NAME, buffer: id.0, offset, len, size });
        match self.buffers.get_mut(id.0 as usize) {
            Some(Buffer { memory, in_use: true }) => match offset.checked_add(len) {
                Some(end) if end <= memory.len() => Ok(memory),
                _ => out_of_range(memory.len()),
            },
            _ => out_of_range(0),
        }
    }

    /// The sources and the result of a node as slices.
    pub(super) fn resolve<'a>(&'a mut self, call: &NodeCall<'_>) -> Result<Values<'a>, BackendError> {
        values::resolve(call, |id, offset, len| {
            let start = self.checked(id, offset, len)?.as_mut_ptr();
            // SAFETY: `offset` is within the buffer, as just checked.
            Ok((unsafe { start.add(offset) }, len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_buffer_serves_the_next_request_of_its_size_class() {
        let mut pool = Pool::default();
        let first = pool.alloc(1000).expect("1000 bytes");
        let second = pool.alloc(1000).expect("1000 bytes");
        assert_ne!(first, second);
        let bytes = pool.bytes();
        pool.free(first);
        assert_eq!(pool.alloc(990).expect("the spare buffer"), first);
        assert_eq!(pool.bytes(), bytes);
    }

    #[test]
    fn accesses_beyond_a_buffer_or_to_a_spare_one_are_errors() {
        let mut pool = Pool::default();
        let id = pool.alloc(256).expect("256 bytes");
        assert!(pool.range(id, 0, 256).is_ok());
        assert!(pool.range(id, 1, 256).is_err());
        assert!(pool.range(id, usize::MAX, 2).is_err());
        assert!(pool.range(BufferId(7), 0, 1).is_err());
        pool.free(id);
        assert!(pool.range(id, 0, 1).is_err());
    }
}
