//! Quantised activations.

use super::Table;
use super::error::{MatmulError, check_len};
use super::panel::{ActivationBlock, BLOCK};
use crate::threads::{Stripes, ThreadPool};

/// The quantised form of activations `[n_in, n_tokens]`, made once per source and shared by all weights that
/// it meets. Keeps its memory for the next use.
#[derive(Default)]
pub struct Activations {
    /// `[n_in / 32, n_planes, n_tokens]`.
    blocks: Vec<ActivationBlock>,
    n_in: usize,
    n_planes: usize,
    n_tokens: usize,
}

impl Activations {
    /// An empty buffer.
    pub fn new() -> Activations {
        Activations::default()
    }

    /// Replaces the contents by the quantised form of `x: [n_in, n_tokens] f32` in one plane: eight bits per
    /// element.
    ///
    /// # Errors
    /// `n_in` is no multiple of 32, or `x` has another length.
    pub fn quantise(
        &mut self,
        kernels: &Table,
        pool: &ThreadPool,
        x: &[f32],
        n_in: usize,
        n_tokens: usize,
    ) -> Result<(), MatmulError> {
        self.fill(pool, x, n_in, n_tokens, 1, &|x, blocks| (kernels.quantise)(x, blocks))
    }

    /// Replaces the contents by the quantised form of `x: [n_in, n_tokens] f32` in two planes, the second
    /// being what the first leaves of `x`: sixteen bits per element.
    ///
    /// # Errors
    /// `n_in` is no multiple of 32, or `x` has another length.
    pub fn quantise_twice(
        &mut self,
        kernels: &Table,
        pool: &ThreadPool,
        x: &[f32],
        n_in: usize,
        n_tokens: usize,
    ) -> Result<(), MatmulError> {
        self.fill(pool, x, n_in, n_tokens, 2, &|x, blocks| {
            let (planes, n_blocks) = (blocks, x.len() / BLOCK);
            let (first, second) = planes.split_at_mut(n_blocks);
            (kernels.quantise)(x, first);
            for ((x, first), second) in x.as_chunks().0.iter().zip(first).zip(second.chunks_exact_mut(1)) {
                (kernels.quantise)(&first.rest_of(x), second);
            }
        })
    }

    /// Resizes, and has `quantise` write the planes of each token.
    fn fill(
        &mut self,
        pool: &ThreadPool,
        x: &[f32],
        n_in: usize,
        n_tokens: usize,
        n_planes: usize,
        quantise: &(dyn Fn(&[f32], &mut [ActivationBlock]) + Sync),
    ) -> Result<(), MatmulError> {
        if !n_in.is_multiple_of(BLOCK) {
            return Err(MatmulError::PartialBlock(n_in));
        }
        check_len("activations", n_in.saturating_mul(n_tokens), x.len())?;
        let token_blocks = n_in / BLOCK * n_planes;
        self.blocks.resize(token_blocks * n_tokens, ActivationBlock::ZERO);
        (self.n_in, self.n_planes, self.n_tokens) = (n_in, n_planes, n_tokens);
        if n_tokens == 1 {
            // Quantising one token takes less time than waking the workers.
            quantise(x, &mut self.blocks);
            return Ok(());
        }
        let n_elems = self.blocks.len();
        let stripes = Stripes::new(&mut self.blocks, n_elems, token_blocks);
        pool.run(&|_, _| {
            while let Some(mut stripe) = stripes.claim() {
                let token = stripe.range().start / token_blocks;
                quantise(&x[token * n_in..(token + 1) * n_in], stripe.row_mut(0));
            }
        });
        Ok(())
    }

    /// Elements per token.
    pub fn n_in(&self) -> usize {
        self.n_in
    }

    /// Number of tokens.
    pub fn n_tokens(&self) -> usize {
        self.n_tokens
    }

    /// Planes per token: a divisor of [`TILE_TOKENS`](super::panel::TILE_TOKENS), so that tiles hold whole
    /// tokens.
    pub(super) fn n_planes(&self) -> usize {
        self.n_planes
    }

    /// Blocks `first..first + n` of vector `vector`, of which each token has one per plane, side by side.
    pub(super) fn vector(&self, vector: usize, first: usize, n: usize) -> &[ActivationBlock] {
        let start = vector * (self.n_in / BLOCK) + first;
        &self.blocks[start..start + n]
    }
}
