//! Bringing a mapped file's pages in before the first token needs them.

use std::sync::Arc;

use memmap2::Mmap;

use super::memory;
use crate::gguf::make_resident;
use crate::tensor::{TensorBytes, TensorMap};

/// Starts a thread that brings all mapped weights into memory, unless they would fill more than half of the memory
/// that is free: then the pages that are used are worth more than those that are only near. The thread keeps the
/// mappings alive and ends by itself; nothing depends on it.
pub(super) fn start(tensors: &TensorMap) {
    let maps = maps(tensors);
    let n_bytes: usize = maps.iter().map(|map| map.len()).sum();
    if maps.is_empty() || memory::available_bytes().is_none_or(|available| n_bytes > available / 2) {
        return;
    }
    let touch = move || maps.iter().for_each(|map| make_resident(map));
    // Without the thread, pages come in when they are used.
    let _ = std::thread::Builder::new().name("minfer-prefetch".to_string()).spawn(touch);
}

/// The mappings of all tensors, each once.
fn maps(tensors: &TensorMap) -> Vec<Arc<Mmap>> {
    let mut maps: Vec<Arc<Mmap>> = Vec::new();
    for (_, tensor) in tensors.iter() {
        if let TensorBytes::Mapped { map, .. } = &tensor.bytes
            && !maps.iter().any(|known| Arc::ptr_eq(known, map))
        {
            maps.push(map.clone());
        }
    }
    maps
}
