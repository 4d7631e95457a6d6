//! The arithmetic of block-wise attention: products of small matrices and the running softmax.

use std::arch::x86_64::*;

use super::entry::entry;
use super::lanes::{LANES, add_lanes, exp, exp_of, load, max_lane, store, zip_map};
use crate::vec_ops::attention::{PAGE_KEYS, PageScores, RunningSoftmax};

entry!(accumulate(a: &[f32], a_stride: usize, b: &[f32], n: usize, c: &mut [f32]) = accumulate_rows);
entry!(update_softmax(scores: PageScores<'_>, state: &mut RunningSoftmax) -> f32 = update_softmax_row);
entry!(merge(values: &mut [f32], state: &mut RunningSoftmax, later: &[f32], other: RunningSoftmax) = merge_rows);

/// Vectors that hold the scores of a page.
const VECTORS: usize = PAGE_KEYS / LANES;

/// Where a small product reads and writes.
#[derive(Clone, Copy)]
struct Product {
    a: *const f32,
    a_stride: usize,
    b: *const f32,
    n: usize,
    n_k: usize,
    c: *mut f32,
}

#[target_feature(enable = "avx2,fma,f16c")]
fn accumulate_rows(a: &[f32], a_stride: usize, b: &[f32], n: usize, c: &mut [f32]) {
    let (n_k, n_rows) = (b.len() / n, c.len() / n);
    assert!(n.is_multiple_of(LANES), "rows of whole vectors");
    assert!(n_rows == 0 || a.len() >= (n_rows - 1) * a_stride + n_k, "every row of a has n_k elements");
    let product = Product { a: a.as_ptr(), a_stride, b: b.as_ptr(), n, n_k, c: c.as_mut_ptr() };
    let mut row = 0;
    while row < n_rows {
        // SAFETY: up to `n_rows - row` rows from `row` on lie within the slices, as asserted.
        row += unsafe {
            match n_rows - row {
                1 => row_block::<1>(product, row),
                2 | 4 => row_block::<2>(product, row),
                _ => row_block::<3>(product, row),
            }
        };
    }
}

/// Computes `R` rows of the result from `row` on, 32 columns at a time while there are 32; returns `R`.
///
/// # Safety
/// The slices behind `product` hold the rows `row..row + R` of `a` and `c`, and all of `b`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn row_block<const R: usize>(product: Product, row: usize) -> usize {
    let mut column = 0;
    // SAFETY: the columns stay below `n`; the rows are the caller's promise.
    unsafe {
        while column + 4 * LANES <= product.n {
            tile::<R, 4>(product, row, column);
            column += 4 * LANES;
        }
        while column < product.n {
            tile::<R, 1>(product, row, column);
            column += LANES;
        }
    }
    R
}

/// Keeps `R` rows of `V` vectors of the result in registers while it goes through all k.
///
/// # Safety
/// As [`row_block`], and the columns `column..column + V * LANES` are below `n`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<const R: usize, const V: usize>(product: Product, row: usize, column: usize) {
    let Product { a, a_stride, b, n, n_k, c } = product;
    let mut sums = [[_mm256_setzero_ps(); V]; R];
    // SAFETY: rows `row..row + R` of `a` have `n_k` elements, `b` has `n_k` rows and `c` these rows of `n`
    // elements.
    unsafe {
        let (a, b, c) = (a.add(row * a_stride), b.add(column), c.add(row * n + column));
        for (r, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = _mm256_loadu_ps(c.add(r * n + v * LANES));
            }
        }
        for k in 0..n_k {
            // One vector of `b` at a time: with R = 3 and V = 4 all sixteen registers are in use.
            let mut factors = [_mm256_setzero_ps(); R];
            for (r, factor) in factors.iter_mut().enumerate() {
                *factor = _mm256_broadcast_ss(&*a.add(r * a_stride + k));
            }
            for v in 0..V {
                let vector = _mm256_loadu_ps(b.add(k * n + v * LANES));
                for (sums, factor) in sums.iter_mut().zip(factors) {
                    sums[v] = _mm256_fmadd_ps(factor, vector, sums[v]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                _mm256_storeu_ps(c.add(r * n + v * LANES), *sum);
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn update_softmax_row(scores: PageScores<'_>, state: &mut RunningSoftmax) -> f32 {
    let PageScores { lanes, keys, scale } = scores;
    let mut scaled = [_mm256_setzero_ps(); VECTORS];
    for (v, scaled) in scaled.iter_mut().enumerate() {
        *scaled = _mm256_mul_ps(load(&lanes[v * LANES..]), _mm256_set1_ps(scale));
    }
    if keys.len() < PAGE_KEYS {
        for (v, scaled) in scaled.iter_mut().enumerate() {
            let seen = lanes_within(v * LANES, keys.start, keys.end);
            *scaled = _mm256_blendv_ps(_mm256_set1_ps(f32::NEG_INFINITY), *scaled, seen);
        }
    }
    let mut maxima = _mm256_set1_ps(state.max);
    for scaled in scaled {
        // The second operand is the result if one is NaN: maxima stay numbers.
        maxima = _mm256_max_ps(scaled, maxima);
    }
    let max = max_lane(maxima);
    // While every score is -inf, any finite reference gives weights of 0 instead of NaN.
    let reference = if max == f32::NEG_INFINITY { 0.0 } else { max };
    let mut sums = _mm256_setzero_ps();
    for (v, scaled) in scaled.into_iter().enumerate() {
        let weight = exp(_mm256_sub_ps(scaled, _mm256_set1_ps(reference)));
        store(&mut lanes[v * LANES..], weight);
        sums = _mm256_add_ps(sums, weight);
    }
    // Most pages raise no maximum; e^0 is exactly 1.
    let factor = if state.max == reference { 1.0 } else { exp_of(state.max - reference) };
    state.max = max;
    state.sum = state.sum.mul_add(factor, add_lanes(sums));
    factor
}

/// All bits set in the lanes `start - first..end - first`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn lanes_within(first: usize, start: usize, end: usize) -> __m256 {
    let lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first as i32));
    let from_start = _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(start as i32 - 1));
    let before_end = _mm256_cmpgt_epi32(_mm256_set1_epi32(end as i32), lane);
    _mm256_castsi256_ps(_mm256_and_si256(from_start, before_end))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn merge_rows(values: &mut [f32], state: &mut RunningSoftmax, later: &[f32], other: RunningSoftmax) {
    let max = if other.max > state.max { other.max } else { state.max };
    let reference = if max == f32::NEG_INFINITY { 0.0 } else { max };
    let (ours, theirs) = (exp_of(state.max - reference), exp_of(other.max - reference));
    let (our_factor, their_factor) = (_mm256_set1_ps(ours), _mm256_set1_ps(theirs));
    zip_map(values, later, |value, later| {
        _mm256_fmadd_ps(later, their_factor, _mm256_mul_ps(value, our_factor))
    });
    *state = RunningSoftmax { max, sum: state.sum * ours + other.sum * theirs };
}
