//! Bringing a mapped file's pages in before the first token needs them.

use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;

use super::memory;
use crate::gguf::make_resident;
use crate::tensor::{Tensor, TensorBytes, TensorMap};

/// Bytes between two tensors up to which they are brought in together: less than it takes to start anew.
const MAX_GAP: usize = 1 << 20;

/// A part of a mapped file.
#[derive(Debug)]
struct Part {
    map: Arc<Mmap>,
    range: Range<usize>,
}

/// Starts a thread that brings the mapped weights that `is_needed` names into memory, unless they would fill
/// more than half of the memory that is free: then the pages that are used are worth more than those that are
/// only near. The thread keeps the mappings alive and ends by itself; nothing depends on it.
pub(super) fn start(tensors: &TensorMap, is_needed: &dyn Fn(&str) -> bool) {
    let parts = parts(tensors.iter().filter(|(name, _)| is_needed(name)).map(|(_, tensor)| tensor));
    let n_bytes: usize = parts.iter().map(|part| part.range.len()).sum();
    if parts.is_empty() || memory::available_bytes().is_none_or(|available| n_bytes > available / 2) {
        return;
    }
    let touch = move || parts.into_iter().for_each(|part| make_resident(&part.map, part.range));
    // Without the thread, pages come in when they are used.
    let _ = std::thread::Builder::new().name("minfer-prefetch".to_string()).spawn(touch);
}

/// Where the mapped ones among `tensors` lie, in file order; neighbours are one part.
fn parts<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for tensor in tensors {
        if let TensorBytes::Mapped { map, range } = &tensor.bytes {
            parts.push(Part { map: map.clone(), range: range.clone() });
        }
    }
    parts.sort_by_key(|part| (Arc::as_ptr(&part.map), part.range.start));
    parts.dedup_by(|next, last| {
        let near =
            Arc::ptr_eq(&next.map, &last.map) && next.range.start <= last.range.end.saturating_add(MAX_GAP);
        if near {
            last.range.end = last.range.end.max(next.range.end);
        }
        near
    });
    parts
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::gguf::{Gguf, OpenOptions};

    #[test]
    fn only_what_is_needed_is_brought_in_and_neighbours_go_together() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/tiny/qwen2-tied-q4_0.gguf");
        let gguf = Gguf::open(&path, &OpenOptions { mmap: true }).expect("it opens");
        let tensors = gguf.tensors().expect("its tensors are whole");
        let all = parts(tensors.iter().map(|(_, tensor)| tensor));
        let n_bytes: usize = tensors.iter().map(|(_, tensor)| tensor.bytes.len()).sum();
        assert!(all.len() == 1 && all[0].range.len() >= n_bytes, "{:?}", all[0].range);
        let norm = tensors.get("output_norm.weight").expect("it is there");
        let one = parts([norm].into_iter());
        assert_eq!(one.iter().map(|part| part.range.len()).collect::<Vec<_>>(), [norm.bytes.len()]);
        assert!(parts(std::iter::empty()).is_empty());
    }
}
