//! Sharing the rows of a result among workers, if there is enough to do.

use super::device::Device;
use crate::threads::Stripes;

/// Work below this is done before other threads would have started.
const WORTH_WAKING_NS: f32 = 20_000.0;

/// Work of one share: large beside the cost of claiming it, small beside the whole.
const SHARE_NS: f32 = 10_000.0;

/// Whether an op that takes one thread `ns` nanoseconds is worth more than one.
pub(super) fn worth_waking(ns: f32) -> bool {
    ns > WORTH_WAKING_NS
}

/// Calls `body(row, elements)` for every row of `out` `[row_len, n_rows]`; the last row may be shorter. `ns_per_elem`
/// is about what one thread needs for an element.
pub(super) fn for_rows(
    device: &Device,
    out: &mut [f32],
    row_len: usize,
    ns_per_elem: f32,
    body: impl Fn(usize, &mut [f32]) + Sync,
) {
    let row_len = row_len.max(1);
    if device.pool.n_workers() == 1 || !worth_waking(out.len() as f32 * ns_per_elem) {
        out.chunks_mut(row_len).enumerate().for_each(|(row, elements)| body(row, elements));
        return;
    }
    let rows_per_share = (SHARE_NS / (row_len as f32 * ns_per_elem)).ceil() as usize;
    let n_elems = out.len();
    let stripes = Stripes::new(out, n_elems, rows_per_share.max(1) * row_len);
    device.pool.run(&|_, _| {
        while let Some(mut stripe) = stripes.claim() {
            let first = stripe.range().start / row_len;
            for (i, elements) in stripe.row_mut(0).chunks_mut(row_len).enumerate() {
                body(first + i, elements);
            }
        }
    });
}
