//! How much memory a context may take.

use super::EngineError;
use crate::graph::{KvShape, PAGE_TOKENS};

/// Default limit of the context length in tokens, where neither the caller nor the model asks for less.
pub const DEFAULT_MAX_N_CTX: usize = 4096;

/// Tokens of the context: `asked` or the default, in whole pages.
pub(super) fn n_ctx(asked: Option<usize>, n_ctx_train: usize) -> Result<usize, EngineError> {
    let wanted = match asked {
        None | Some(0) => n_ctx_train.min(DEFAULT_MAX_N_CTX),
        Some(n) => n,
    };
    // Cells and positions are i32 in the graph.
    let longest = i32::MAX as usize / PAGE_TOKENS * PAGE_TOKENS;
    match wanted.checked_next_multiple_of(PAGE_TOKENS) {
        Some(n_ctx) if n_ctx <= longest => Ok(n_ctx),
        _ => {
            Err(EngineError::BadOption { what: "n_ctx", expected: format!("at most {longest}"), got: wanted })
        }
    }
}

/// Bytes of all layers' keys and values. Wider than an address, so that the refusal can show any number.
pub(super) fn kv_bytes(shape: &KvShape, n_layer: usize) -> u128 {
    let elem_bytes = shape.format.dtype().block_bytes();
    let row_elems = shape.k_row_elems + shape.v_row_elems;
    [shape.n_cells, row_elems, elem_bytes, n_layer].into_iter().map(|n| n as u128).product()
}

/// Refuses a context whose keys and values do not fit into the budget.
pub(super) fn check_kv(
    shape: &KvShape,
    n_layer: usize,
    budget_bytes: Option<usize>,
) -> Result<(), EngineError> {
    let bytes = kv_bytes(shape, n_layer);
    // An allocation cannot be larger than an isize, whatever the budget.
    let budget_bytes = budget_bytes.unwrap_or(usize::MAX).min(isize::MAX as usize);
    match bytes <= budget_bytes as u128 {
        true => Ok(()),
        false => Err(EngineError::ContextTooBig { n_ctx: shape.n_cells, bytes, budget_bytes }),
    }
}

/// Memory that the system can give without swapping, where it says so.
pub fn available_bytes() -> Option<usize> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::KvFormat;

    #[test]
    fn the_default_context_is_bounded_and_whole_pages() {
        assert_eq!(n_ctx(None, u32::MAX as usize).expect("bounded"), DEFAULT_MAX_N_CTX);
        assert_eq!(n_ctx(Some(0), 2048).expect("the model's"), 2048);
        assert_eq!(n_ctx(None, 100).expect("rounded"), 128);
        assert_eq!(n_ctx(Some(7), 2048).expect("rounded"), 32);
    }

    #[test]
    fn a_context_beyond_the_index_range_is_refused() {
        let error = n_ctx(Some(1_000_000_000_000), 2048).expect_err("too long");
        assert!(error.to_string().contains("1000000000000"), "{error}");
        assert!(n_ctx(Some(usize::MAX), 2048).is_err());
    }

    #[test]
    fn a_refused_context_says_what_it_needs_and_what_there_is() {
        let shape = KvShape { n_cells: 4096, k_row_elems: 128, v_row_elems: 128, format: KvFormat::F16 };
        assert_eq!(kv_bytes(&shape, 24), 50_331_648);
        assert!(check_kv(&shape, 24, Some(50_331_648)).is_ok());
        let error = check_kv(&shape, 24, Some(20 << 20)).expect_err("too big");
        let text =
            "context of 4096 tokens: keys and values need 50331648 bytes (48 MiB): expected at most 20 MiB";
        assert_eq!(error.to_string(), text);
        let huge = KvShape { n_cells: 1 << 30, k_row_elems: 1 << 30, v_row_elems: 1 << 30, ..shape };
        assert!(check_kv(&huge, 1 << 20, None).is_err());
    }
}
