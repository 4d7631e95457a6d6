//! Buffers in the host's memory.

use super::memory::AlignedBytes;
use super::values::Values;
use super::{NAME, values};
use crate::backends::pool;
use crate::graph::{BackendError, NodeCall};

/// All buffers ever made, in use or spare.
pub(super) type Pool = pool::Pool<AlignedBytes>;

impl pool::Memory for AlignedBytes {
    fn len_bytes(&self) -> usize {
        self.len()
    }
}

/// Makes a buffer.
pub(super) fn make(bytes: usize) -> Result<AlignedBytes, BackendError> {
    let out_of_memory = BackendError::OutOfMemory { backend: NAME, bytes, what: "a buffer" };
    AlignedBytes::zeroed(bytes).ok_or(out_of_memory)
}

impl pool::Pool<AlignedBytes> {
    /// The sources and the result of a node as slices.
    pub(super) fn resolve<'a>(&'a mut self, call: &NodeCall<'_>) -> Result<Values<'a>, BackendError> {
        values::resolve(call, |id, offset, len| {
            let start = self.get_mut(id, offset, len)?.as_mut_ptr();
            // SAFETY: `offset` is within the buffer, as just checked.
            Ok((unsafe { start.add(offset) }, len))
        })
    }
}
