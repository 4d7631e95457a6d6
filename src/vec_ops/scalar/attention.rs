//! The arithmetic of block-wise attention: products of small matrices and the running softmax.

use super::elementwise::add_lanes;
use super::exp::exp;
use crate::vec_ops::attention::{PageScores, RunningSoftmax};

/// `c[r][j] += Σ_k a[r][k] * b[k][j]`, every sum in the order of k. `a` has rows `a_stride` apart, `b` is
/// `[n, n_k]` and `c` `[n, n_rows]`, `n` a multiple of 8.
pub(in crate::vec_ops) fn accumulate(a: &[f32], a_stride: usize, b: &[f32], n: usize, c: &mut [f32]) {
    for (row, c) in c.chunks_exact_mut(n).enumerate() {
        let a = &a[row * a_stride..];
        for (b, a) in b.chunks_exact(n).zip(a) {
            for (c, b) in c.iter_mut().zip(b) {
                *c += a * b;
            }
        }
    }
}

/// Turns the scores of the lanes `keys` into weights relative to the running maximum, those of all other
/// lanes into 0, and returns the factor for what was accumulated before.
pub(in crate::vec_ops) fn update_softmax(scores: PageScores<'_>, state: &mut RunningSoftmax) -> f32 {
    let PageScores { lanes, keys, scale } = scores;
    let mut max = state.max;
    for lane in &mut lanes[keys.clone()] {
        *lane *= scale;
        max = if *lane > max { *lane } else { max };
    }
    // While every score is -inf, any finite reference gives weights of 0 instead of NaN.
    let reference = if max == f32::NEG_INFINITY { 0.0 } else { max };
    let mut sums = [0.0f32; 8];
    for (j, lane) in lanes.iter_mut().enumerate() {
        *lane = if keys.contains(&j) { exp(*lane - reference) } else { 0.0 };
        sums[j % 8] += *lane;
    }
    let factor = exp(state.max - reference);
    state.max = max;
    state.sum = state.sum * factor + add_lanes(sums);
    factor
}

/// Adds the result of a later segment, `[n]` values with their softmax state, to that of earlier ones.
pub(in crate::vec_ops) fn merge(
    values: &mut [f32],
    state: &mut RunningSoftmax,
    later: &[f32],
    other: RunningSoftmax,
) {
    let max = if other.max > state.max { other.max } else { state.max };
    let reference = if max == f32::NEG_INFINITY { 0.0 } else { max };
    let (ours, theirs) = (exp(state.max - reference), exp(other.max - reference));
    for (value, later) in values.iter_mut().zip(later) {
        *value = *value * ours + later * theirs;
    }
    *state = RunningSoftmax { max, sum: state.sum * ours + other.sum * theirs };
}
