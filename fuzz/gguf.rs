//! GGUF files: anything may be refused, nothing may panic, and what is accepted lies inside the file.

use std::hint::black_box;

use minfer::gguf::Gguf;

/// Opens `data` as a GGUF file and touches everything it claims to hold.
pub fn gguf(data: &[u8]) {
    let file = match Gguf::from_bytes(data) {
        Ok(file) => file,
        Err(error) => {
            black_box(error.to_string());
            return;
        }
    };
    for (key, value) in file.metadata().iter() {
        black_box((key, value.to_string()));
    }
    let Ok(tensors) = file.tensors() else { return };
    for (_, tensor) in tensors.iter() {
        assert!(tensor.bytes.len() <= data.len());
        black_box((tensor.bytes.first(), tensor.bytes.last()));
    }
}
