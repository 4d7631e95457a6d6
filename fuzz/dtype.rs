//! Element types and sizes as a hostile file would state them.

use minfer::tensor::DType;

/// Input: GGUF's type number as u32, then an element count as u64, both little-endian.
pub(crate) fn dtype(data: &[u8]) {
    let Some((id, rest)) = data.split_first_chunk::<4>() else { return };
    let Some(n_elems) = rest.first_chunk::<8>() else { return };
    let Some(dtype) = DType::from_ggml_id(u32::from_le_bytes(*id)) else { return };
    assert_eq!(dtype.ggml_id(), u32::from_le_bytes(*id));

    let n_elems = u64::from_le_bytes(*n_elems) as usize;
    if let Some(n_bytes) = dtype.bytes_for(n_elems) {
        assert_eq!(n_bytes / dtype.block_bytes() * dtype.block_elems(), n_elems);
    }
}
