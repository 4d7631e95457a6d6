//! Arithmetic of block-wise attention, one table of functions per instruction set.
//!
//! Attention goes through the KV pages of a sequence in order. For a group of query rows and one page it
//! computes scores (a product), turns them into weights relative to the largest score so far (the running
//! softmax), and accumulates the weighted values (a product again). The operations that one query row sees,
//! and their order, never depend on the rows beside it.

use std::ops::Range;

use super::{Isa, scalar};

/// Keys that one block of scores has: those of a KV page.
pub const PAGE_KEYS: usize = 32;

/// Scores of one query row with the keys of one page.
pub struct PageScores<'a> {
    /// `[PAGE_KEYS]`: scores, replaced by weights.
    pub lanes: &'a mut [f32; PAGE_KEYS],
    /// The lanes that the query sees.
    pub keys: Range<usize>,
    /// Factor on the scores.
    pub scale: f32,
}

/// What the softmax of one query row knows so far.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunningSoftmax {
    /// The largest score.
    pub max: f32,
    /// Sum of the weights relative to `max`.
    pub sum: f32,
}

impl RunningSoftmax {
    /// Before the first score.
    pub const EMPTY: RunningSoftmax = RunningSoftmax { max: f32::NEG_INFINITY, sum: 0.0 };
}

/// Functions of block-wise attention.
pub struct AttentionKernels {
    /// `accumulate(a, a_stride, b, n, c)`: `c[r][j] += Σ_k a[r][k] * b[k][j]`, every sum in the order of k.
    /// `a` has rows `a_stride` apart, `b` is `[n, n_k]` and `c` `[n, n_rows]`, `n` a multiple of 8.
    pub accumulate: fn(a: &[f32], a_stride: usize, b: &[f32], n: usize, c: &mut [f32]),
    /// Turns scores into weights; returns the factor for what was accumulated before.
    pub update_softmax: fn(scores: PageScores<'_>, state: &mut RunningSoftmax) -> f32,
    /// Adds the result of a later segment, `[n]` values with their softmax state, to that of earlier ones.
    pub merge: fn(values: &mut [f32], state: &mut RunningSoftmax, later: &[f32], other: RunningSoftmax),
}

static SCALAR: AttentionKernels = AttentionKernels {
    accumulate: scalar::attention::accumulate,
    update_softmax: scalar::attention::update_softmax,
    merge: scalar::attention::merge,
};

#[cfg(target_arch = "x86_64")]
static AVX2: AttentionKernels = AttentionKernels {
    accumulate: super::avx2::attention::accumulate,
    update_softmax: super::avx2::attention::update_softmax,
    merge: super::avx2::attention::merge,
};

/// The functions of `isa`. AVX-512 adds nothing here.
///
/// # Panics
/// If this machine does not run `isa`: every use of the table would be undefined.
pub fn table(isa: Isa) -> &'static AttentionKernels {
    isa.assert_available();
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => &AVX2,
        _ => &SCALAR,
    }
}

#[cfg(test)]
mod tests;
