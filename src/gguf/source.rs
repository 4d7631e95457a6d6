//! Brings a file into memory: mapped, or read into anonymous memory.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use memmap2::{Mmap, MmapMut};

use super::{GgufErrorKind, LooksLike};

/// How to open a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    /// Map the file, so that pages are read when they are first used and shared with other processes. If
    /// false, the whole file is read into memory of its own; that is faster on some network drives and safe
    /// against changes of the file.
    pub mmap: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { mmap: true }
    }
}

/// The bytes of the file at `path`, which is at least one byte long.
pub(super) fn load(path: &Path, options: &OpenOptions) -> Result<Mmap, GgufErrorKind> {
    // Asked before opening, since opening a pipe would wait for a writer.
    let attributes = fs::metadata(path).map_err(failed("open"))?;
    let not_gguf = if attributes.is_dir() {
        Some(LooksLike::Directory)
    } else if !attributes.is_file() {
        Some(LooksLike::NotAFile)
    } else if attributes.len() == 0 {
        Some(LooksLike::Empty)
    } else {
        None
    };
    if let Some(looks_like) = not_gguf {
        return Err(GgufErrorKind::NotGguf(looks_like));
    }
    let file = File::open(path).map_err(failed("open"))?;
    if options.mmap {
        // SAFETY: the mapping is read-only. Nothing in this crate writes to a file in place, and the module
        // documentation tells users that nobody else may while it is open.
        unsafe { Mmap::map(&file) }.map_err(failed("map"))
    } else {
        read(file, attributes.len()).map_err(failed("read"))
    }
}

/// Copies `bytes`, of which there must be at least one, into a mapping of anonymous memory.
pub(super) fn copy(bytes: &[u8]) -> Result<Mmap, GgufErrorKind> {
    read(bytes, bytes.len() as u64).map_err(failed("copy"))
}

fn read(mut source: impl Read, n_bytes: u64) -> io::Result<Mmap> {
    let n_bytes = usize::try_from(n_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut memory = MmapMut::map_anon(n_bytes)?;
    source.read_exact(&mut memory)?;
    memory.make_read_only()
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> GgufErrorKind {
    move |source| GgufErrorKind::Io { action, source }
}
