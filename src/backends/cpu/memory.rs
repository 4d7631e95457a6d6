//! Aligned memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of all buffers in bytes: a cache line, and at least a vector.
const ALIGN: usize = 64;

/// Zeroed bytes at a multiple of 64. Large ones cost no physical memory before they are touched.
pub(super) struct AlignedBytes {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value owns its memory.
unsafe impl Send for AlignedBytes {}
// SAFETY: shared access is read access.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `bytes` zeros, or `None` if there is no such memory.
    pub(super) fn zeroed(bytes: usize) -> Option<AlignedBytes> {
        let layout = Layout::from_size_align(bytes.max(ALIGN), ALIGN).ok()?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(AlignedBytes { start, layout })
    }

    /// The first byte, for writing.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody borrows it any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `layout.size()` initialised bytes that this value owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for reading, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}
