//! Quantised activations.

use super::Table;
use super::error::{MatmulError, check_len};
use super::panel::{ActivationBlock, BLOCK};
use crate::threads::{Stripes, ThreadPool};

/// The quantised form of activations `[n_in, n_tokens]`, made once per source and shared by all weights that it meets. Keeps its memory
/// for the next use.
#[derive(Default)]
pub struct Activations {
    /// `[n_in / 32, n_tokens]`.
    blocks: Vec<ActivationBlock>,
    n_in: usize,
    n_tokens: usize,
}

impl Activations {
    /// An empty buffer.
    pub fn new() -> Activations {
        Activations::default()
    }

    /// Replaces the contents by the quantised form of `x: [n_in, n_tokens] f32`.
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
        if !n_in.is_multiple_of(BLOCK) {
            return Err(MatmulError::PartialBlock(n_in));
        }
        check_len("activations", n_in.saturating_mul(n_tokens), x.len())?;
        let n_blocks = n_in / BLOCK;
        self.blocks.resize(n_blocks * n_tokens, ActivationBlock::ZERO);
        (self.n_in, self.n_tokens) = (n_in, n_tokens);
        if n_tokens == 1 {
            // Quantising one token takes less time than waking the workers.
            (kernels.quantise)(x, &mut self.blocks);
            return Ok(());
        }
        let n_elems = self.blocks.len();
        let stripes = Stripes::new(&mut self.blocks, n_elems, n_blocks);
        pool.run(&|_, _| {
            while let Some(mut stripe) = stripes.claim() {
                let range = stripe.range();
                (kernels.quantise)(&x[range.start * BLOCK..range.end * BLOCK], stripe.row_mut(0));
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

    /// Blocks `first..first + n` of token `token`.
    pub(super) fn token(&self, token: usize, first: usize, n: usize) -> &[ActivationBlock] {
        let start = token * (self.n_in / BLOCK) + first;
        &self.blocks[start..start + n]
    }
}
