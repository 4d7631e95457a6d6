//! The matmul as callers see it: jobs in, the pool at work, results out.

use std::sync::{Mutex, PoisonError};

use super::error::MatmulError;
use super::panel::PanelBlock;
use super::product::Product;
use super::{Activations, Table};
use crate::tensor::Tensor;
use crate::threads::ThreadPool;

/// Multiplications below which the pool is not worth waking.
const SMALL: usize = 1 << 15;

/// Activations in the form that the weight's type asks for; see [`needs_quantised`](super::needs_quantised).
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// `[n_in, n_tokens] f32`, for float weights.
    F32(&'a [f32]),
    /// For block-quantised weights.
    Quantised(&'a Activations),
}

/// One matrix product of several on the same activations.
pub struct Job<'a> {
    /// `[n_in, n_out]`.
    pub weight: &'a Tensor,
    /// `[n_out] f32`.
    pub bias: Option<&'a [f32]>,
    /// `[n_out, n_tokens] f32`.
    pub out: &'a mut [f32],
}

/// Working memory of the matmul, kept from call to call: a panel buffer per worker.
#[derive(Default)]
pub struct Scratch {
    panels: Vec<Mutex<Vec<PanelBlock>>>,
}

impl Scratch {
    /// Empty working memory; it grows with use.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    fn grow(&mut self, n_workers: usize) {
        if self.panels.len() < n_workers {
            self.panels.resize_with(n_workers, Mutex::default);
        }
    }
}

/// `out = weight * x + bias` with `weight: [n_in, n_out]`, `x: [n_in, n_tokens]`, `bias: [n_out] f32`, `out:
/// [n_out, n_tokens] f32`.
///
/// # Errors
/// A length, shape, type or form that does not fit; then `out` is as it was.
#[allow(clippy::too_many_arguments)]
pub fn matmul(
    kernels: &Table,
    pool: &ThreadPool,
    weight: &Tensor,
    bias: Option<&[f32]>,
    x: Input<'_>,
    n_tokens: usize,
    scratch: &mut Scratch,
    out: &mut [f32],
) -> Result<(), MatmulError> {
    matmul_many(kernels, pool, &mut [Job { weight, bias, out }], x, n_tokens, scratch)
}

/// Several products on the same activations, with one start and one end for the workers. The results are
/// those of [`matmul`].
///
/// # Errors
/// As [`matmul`], if any of the jobs does not fit; then no `out` has changed.
pub fn matmul_many(
    kernels: &Table,
    pool: &ThreadPool,
    jobs: &mut [Job<'_>],
    x: Input<'_>,
    n_tokens: usize,
    scratch: &mut Scratch,
) -> Result<(), MatmulError> {
    let products = jobs
        .iter_mut()
        .map(|job| Product::new(kernels, job, x, n_tokens, pool.n_workers()))
        .collect::<Result<Vec<_>, _>>()?;
    if n_tokens == 0 {
        return Ok(());
    }
    scratch.grow(pool.n_workers());
    let work = |worker: usize, _: usize| {
        let mut panels = scratch.panels[worker].lock().unwrap_or_else(PoisonError::into_inner);
        for product in &products {
            product.compute_share(&mut panels);
        }
    };
    if products.iter().map(Product::n_multiplications).sum::<usize>() < SMALL {
        work(0, 1);
    } else {
        pool.run(&work);
    }
    Ok(())
}
