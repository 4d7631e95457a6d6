//! Bringing a mapped file into memory before it is needed.

use std::ops::Range;

use memmap2::Mmap;

/// Brings the bytes `range` of `map` into memory, where possible into huge pages; a system that cannot will
/// bring them in when they are used.
///
/// Walking through small pages, a processor spends a good part of its time on translating addresses. So every
/// whole huge page of the range is copied to anonymous memory, which then takes the place of the file's
/// pages. This needs as much free memory as the range is long, until the system has use for the pages that it
/// keeps of the file. The bytes are the same at any time, so others may read them meanwhile.
pub fn make_resident(map: &Mmap, range: Range<usize>) {
    let end = range.end.min(map.len());
    imp::make_resident(map, range.start.min(end)..end);
}

#[cfg(target_os = "linux")]
mod imp {
    use std::ffi::c_void;
    use std::ops::Range;
    use std::ptr::null_mut;

    use memmap2::{Advice, Mmap};

    /// Bytes of a huge page; on systems where it is another, this is still right, but of less use.
    const HUGE: usize = 2 << 20;

    /// Bytes that are exchanged at once.
    const PORTION: usize = 8 * HUGE;

    pub(super) fn make_resident(map: &Mmap, range: Range<usize>) {
        let whole = if has_huge_pages() { huge_range(map, &range) } else { 0..0 };
        for start in whole.clone().step_by(PORTION) {
            if exchange(map, start..whole.end.min(start + PORTION)).is_none() {
                break;
            }
        }
        let _ = map.advise_range(Advice::PopulateRead, range.start, range.len());
    }

    /// True if the system gives huge pages to a program that asks for them.
    fn has_huge_pages() -> bool {
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .is_ok_and(|modes| !modes.contains("[never]"))
    }

    /// The part of a range of the mapping that whole huge pages cover.
    fn huge_range(map: &Mmap, range: &Range<usize>) -> Range<usize> {
        let first = range.start + map[range.clone()].as_ptr().align_offset(HUGE).min(range.len());
        first..first + (range.end - first) / HUGE * HUGE
    }

    /// Puts a copy of `portion`, whole huge pages of the mapping, in its place; `None` if the system has not
    /// enough memory.
    fn exchange(map: &Mmap, portion: Range<usize>) -> Option<()> {
        let _ = map.advise_range(Advice::PopulateRead, portion.start, portion.len());
        let old = &map[portion];
        let new = Spare::new(old.len())?;
        // SAFETY: the spare memory is as long as the portion, and nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(old.as_ptr(), new.start.cast(), old.len()) };
        new.take_place_of(old)
    }

    /// Anonymous memory of whole huge pages.
    struct Spare {
        start: *mut c_void,
        len: usize,
    }

    impl Spare {
        fn new(len: usize) -> Option<Spare> {
            let (access, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: asks for new memory at an address of the system's choice.
            let all = unsafe { libc::mmap(null_mut(), len + HUGE, access, flags, -1, 0) };
            if all == libc::MAP_FAILED {
                return None;
            }
            let before = all.cast::<u8>().align_offset(HUGE);
            let spare = Spare { start: all.wrapping_byte_add(before), len };
            // SAFETY: gives back what lies before and behind the spare memory, whole pages of the mapping
            // made above, and says how the rest will be used.
            let advised = unsafe {
                unmap(all, before);
                unmap(spare.start.wrapping_byte_add(len), HUGE - before);
                libc::madvise(spare.start, len, libc::MADV_HUGEPAGE)
            };
            (advised == 0).then_some(spare)
        }

        /// Moves this memory to where `old` lies; both have the same bytes.
        fn take_place_of(self, old: &[u8]) -> Option<()> {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: `old` is whole pages of a mapping of this process. Its bytes stay the same, so no
            // reader can tell; its owner gives it back by its address, whatever is mapped there.
            let moved = unsafe {
                libc::mprotect(self.start, self.len, libc::PROT_READ) == 0
                    && libc::mremap(self.start, self.len, self.len, flags, old.as_ptr()) != libc::MAP_FAILED
            };
            if moved {
                std::mem::forget(self);
            }
            moved.then_some(())
        }
    }

    impl Drop for Spare {
        fn drop(&mut self) {
            // SAFETY: the memory was mapped by `new`, and `take_place_of` forgets what it moved away.
            unsafe { unmap(self.start, self.len) };
        }
    }

    /// # Safety
    /// The range is whole pages that this module mapped and that nothing refers to.
    unsafe fn unmap(start: *mut c_void, len: usize) {
        if len > 0 {
            // SAFETY: as for this function. It cannot fail for such a range.
            unsafe { libc::munmap(start, len) };
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod imp {
    pub(super) fn make_resident(map: &memmap2::Mmap, range: std::ops::Range<usize>) {
        let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
    }
}

#[cfg(not(unix))]
mod imp {
    pub(super) fn make_resident(_: &memmap2::Mmap, _: std::ops::Range<usize>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_what_they_are() {
        let path = std::env::temp_dir().join(format!("minfer-resident-{}", std::process::id()));
        let bytes: Vec<u8> =
            (0..40_000_123_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        std::fs::write(&path, &bytes).expect("a temporary file");
        let file = std::fs::File::open(&path).expect("the file exists");
        // SAFETY: nobody writes to the file.
        let map = unsafe { Mmap::map(&file) }.expect("the file can be mapped");
        make_resident(&map, 5_000_001..31_234_567);
        assert!(map[..] == bytes[..]);
        make_resident(&map, 0..usize::MAX);
        assert!(map[..] == bytes[..]);
        std::fs::remove_file(&path).expect("the file exists");
    }
}
