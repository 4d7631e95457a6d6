//! How much memory a context may take.

mod available;

use super::EngineError;
use crate::graph::{BackendId, KvFormat, KvShape, PAGE_TOKENS};
use crate::models::HParams;

pub use available::available_bytes;

/// Default limit of the context length in tokens, where neither the caller nor the model asks for less.
pub const DEFAULT_MAX_N_CTX: usize = 4096;

/// Tokens of the context: `asked` or the default, in whole pages.
pub(super) fn n_ctx(asked: Option<usize>, n_ctx_train: usize) -> usize {
    let wanted = match asked {
        None | Some(0) => n_ctx_train.min(DEFAULT_MAX_N_CTX),
        Some(n) => n,
    };
    wanted.checked_next_multiple_of(PAGE_TOKENS).unwrap_or(usize::MAX / PAGE_TOKENS * PAGE_TOKENS)
}

/// Bytes of all layers' keys and values. Wider than an address, so that the refusal can show any number.
pub(super) fn kv_bytes(shape: &KvShape, n_layer: usize) -> u128 {
    let dtype = shape.format.dtype();
    let row_blocks = (shape.k_row_elems + shape.v_row_elems) / dtype.block_elems();
    [shape.n_cells, row_blocks, dtype.block_bytes(), n_layer].into_iter().map(|n| n as u128).product()
}

/// Refuses a context whose keys and values of `n_layer` layers do not fit into the budget of the host or of a
/// device, or whose cells the graph cannot number.
pub(super) fn check_kv(
    shape: &KvShape,
    n_layer: usize,
    device: Option<BackendId>,
    budget_bytes: Option<usize>,
) -> Result<(), EngineError> {
    let bytes = kv_bytes(shape, n_layer);
    // An allocation cannot be larger than an isize, whatever the budget.
    let budget_bytes = budget_bytes.unwrap_or(usize::MAX).min(isize::MAX as usize);
    if bytes > budget_bytes as u128 {
        return Err(EngineError::ContextTooBig { device, n_ctx: shape.n_cells, bytes, budget_bytes });
    }
    // Cells and positions are i32 in the graph.
    let longest = i32::MAX as usize / PAGE_TOKENS * PAGE_TOKENS;
    if shape.n_cells > longest {
        let (expected, got) = (format!("at most {longest}"), shape.n_cells);
        return Err(EngineError::BadOption { what: "n_ctx", expected, got });
    }
    Ok(())
}

/// Refuses a format whose blocks do not fit into the heads' rows.
pub(super) fn check_kv_format(format: KvFormat, hparams: &HParams) -> Result<(), EngineError> {
    for (what, got) in [("head_dim", hparams.head_dim), ("head_dim_v", hparams.head_dim_v)] {
        let block_elems = format.block_elems();
        if !got.is_multiple_of(block_elems) {
            return Err(EngineError::KvFormat { format: format.dtype(), what, block_elems, got });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_context_is_bounded_and_whole_pages() {
        assert_eq!(n_ctx(None, u32::MAX as usize), DEFAULT_MAX_N_CTX);
        assert_eq!(n_ctx(Some(0), 2048), 2048);
        assert_eq!(n_ctx(None, 100), 128);
        assert_eq!(n_ctx(Some(7), 2048), 32);
        assert_eq!(n_ctx(Some(usize::MAX), 2048) % PAGE_TOKENS, 0);
    }

    #[test]
    fn a_context_beyond_memory_or_the_index_range_is_refused() {
        let shape = |n_cells| KvShape { n_cells, k_row_elems: 128, v_row_elems: 128, format: KvFormat::F16 };
        let error = check_kv(&shape(1_000_000_000_000), 24, None, Some(1 << 34)).expect_err("too long");
        assert!(error.to_string().contains("need 12288000000000000 bytes"), "{error}");
        let empty = KvShape { n_cells: 1 << 31, k_row_elems: 0, v_row_elems: 0, format: KvFormat::F16 };
        assert!(check_kv(&empty, 24, None, None).is_err());
    }

    #[test]
    fn a_refused_context_says_what_it_needs_and_what_there_is() {
        let shape = KvShape { n_cells: 4096, k_row_elems: 128, v_row_elems: 128, format: KvFormat::F16 };
        assert_eq!(kv_bytes(&shape, 24), 50_331_648);
        let blocks = KvShape { format: KvFormat::Q8_0, ..shape };
        assert_eq!(kv_bytes(&blocks, 24), 50_331_648 / 64 * 34);
        assert!(check_kv(&shape, 24, None, Some(50_331_648)).is_ok());
        let error = check_kv(&shape, 24, None, Some(20 << 20)).expect_err("too big");
        let text =
            "context of 4096 tokens: keys and values need 50331648 bytes (48 MiB): expected at most 20 MiB";
        assert_eq!(error.to_string(), text);
        let huge = KvShape { n_cells: 1 << 30, k_row_elems: 1 << 30, v_row_elems: 1 << 30, ..shape };
        assert!(check_kv(&huge, 1 << 20, None, None).is_err());
    }
}
