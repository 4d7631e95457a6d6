//! The buffer pool: buffers by size class, reused before new ones are made, never moved.

use crate::graph::{BackendError, BufferId, size_class};

/// Memory that a backend can make a buffer of.
pub(super) trait Memory {
    /// Its size in bytes.
    fn len_bytes(&self) -> usize;
}

/// A buffer and whether it is in use.
struct Buffer<M> {
    memory: M,
    in_use: bool,
}

/// All buffers that a backend ever made, in use or spare.
pub(super) struct Pool<M> {
    /// The backend's name in messages.
    backend: &'static str,
    buffers: Vec<Buffer<M>>,
}

impl<M: Memory> Pool<M> {
    /// A pool without buffers, of the backend with this name.
    pub(super) fn new(backend: &'static str) -> Pool<M> {
        Pool { backend, buffers: Vec::new() }
    }

    /// A buffer of at least `bytes`; `make` is given the size of a new one.
    pub(super) fn alloc(
        &mut self,
        bytes: usize,
        make: impl FnOnce(usize) -> Result<M, BackendError>,
    ) -> Result<BufferId, BackendError> {
        let bytes = size_class(bytes);
        let fits = |buffer: &Buffer<M>| !buffer.in_use && buffer.memory.len_bytes() == bytes;
        if let Some(index) = self.buffers.iter().position(fits) {
            self.buffers[index].in_use = true;
            return Ok(BufferId(index as u32));
        }
        self.buffers.push(Buffer { memory: make(bytes)?, in_use: true });
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
        self.buffers.iter().map(|buffer| buffer.memory.len_bytes()).sum()
    }

    /// The memory of a buffer that is in use and has the bytes `offset..offset + len`.
    pub(super) fn get(&self, id: BufferId, offset: usize, len: usize) -> Result<&M, BackendError> {
        self.check(id, offset, len).map(|index| &self.buffers[index].memory)
    }

    /// [`Pool::get`], to write to.
    pub(super) fn get_mut(
        &mut self,
        id: BufferId,
        offset: usize,
        len: usize,
    ) -> Result<&mut M, BackendError> {
        self.check(id, offset, len).map(|index| &mut self.buffers[index].memory)
    }

    /// The index of the buffer `id`, if the access lies within it.
    fn check(&self, id: BufferId, offset: usize, len: usize) -> Result<usize, BackendError> {
        let index = id.0 as usize;
        let size = match self.buffers.get(index) {
            Some(buffer) if buffer.in_use => Some(buffer.memory.len_bytes()),
            _ => None,
        };
        match (offset.checked_add(len), size) {
            (Some(end), Some(size)) if end <= size => Ok(index),
            _ => {
                let size = size.unwrap_or(0);
                Err(BackendError::OutOfRange { backend: self.backend, buffer: id.0, offset, len, size })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Memory for Vec<u8> {
        fn len_bytes(&self) -> usize {
            self.len()
        }
    }

    fn alloc(pool: &mut Pool<Vec<u8>>, bytes: usize) -> BufferId {
        pool.alloc(bytes, |bytes| Ok(vec![0; bytes])).expect("there is memory")
    }

    #[test]
    fn a_freed_buffer_serves_the_next_request_of_its_size_class() {
        let mut pool = Pool::new("test");
        let first = alloc(&mut pool, 1000);
        let second = alloc(&mut pool, 1000);
        assert_ne!(first, second);
        let bytes = pool.bytes();
        pool.free(first);
        assert_eq!(alloc(&mut pool, 990), first);
        assert_eq!(pool.bytes(), bytes);
    }

    #[test]
    fn accesses_beyond_a_buffer_or_to_a_spare_one_are_errors() {
        let mut pool = Pool::new("test");
        let id = alloc(&mut pool, 256);
        assert!(pool.get(id, 0, 256).is_ok());
        assert!(pool.get(id, 1, 256).is_err());
        assert!(pool.get(id, usize::MAX, 2).is_err());
        assert!(pool.get(BufferId(7), 0, 1).is_err());
        pool.free(id);
        assert!(pool.get_mut(id, 0, 1).is_err());
    }
}
