//! How well the model predicts a given text.

use super::{Batch, Context, EngineError, log_sum_exp};
use crate::kv::SeqId;

/// Tokens at a chunk's start that are only context.
const N_UNSCORED: usize = Perplexity::CHUNK / 2 + 1;
/// Rows of logits held at once: a chunk's would be the largest buffer of the process.
const ROWS: usize = 64;

/// Perplexity after some chunks of a text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Perplexity {
    /// `exp` of the mean negative log-likelihood of the scored tokens.
    pub value: f64,
    /// Standard error of `value`.
    pub standard_error: f64,
    /// Chunks scored.
    pub n_chunks: usize,
}

impl Perplexity {
    /// Tokens of a chunk: the context that scoring needs.
    pub const CHUNK: usize = 512;
}

/// Sums over scored tokens.
#[derive(Default)]
struct Sums {
    n: f64,
    nll: f64,
    nll_squared: f64,
}

impl Sums {
    fn add(&mut self, nll: f64) {
        self.n += 1.0;
        self.nll += nll;
        self.nll_squared += nll * nll;
    }

    fn perplexity(&self, n_chunks: usize) -> Perplexity {
        let mean = self.nll / self.n;
        let variance = self.nll_squared / self.n - mean * mean;
        let standard_error = mean.exp() * (variance.max(0.0) / (self.n - 1.0)).sqrt();
        Perplexity { value: mean.exp(), standard_error, n_chunks }
    }
}

impl Context {
    /// Perplexity of `tokens`, scored as llama-perplexity does: in every whole chunk of 512 tokens the last 255 are
    /// predicted from all earlier ones of the chunk. If the model wants one, a begin-of-sequence token takes the
    /// place of a chunk's first token. `on_chunk` sees the running value and may end the scoring by returning false.
    pub fn perplexity(
        &mut self,
        tokens: &[u32],
        on_chunk: &mut dyn FnMut(&Perplexity) -> bool,
    ) -> Result<Perplexity, EngineError> {
        if tokens.len() < Perplexity::CHUNK {
            return Err(EngineError::TextTooShort { n_tokens: tokens.len(), expected: Perplexity::CHUNK });
        }
        let tokenizer = self.engine().tokenizer();
        let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
        let mut sums = Sums::default();
        let mut running = sums.perplexity(0);
        for (i, chunk) in tokens.chunks_exact(Perplexity::CHUNK).enumerate() {
            let mut chunk = chunk.to_vec();
            chunk[0] = bos.unwrap_or(chunk[0]);
            let score = |position: usize, logits: &[f32]| {
                let next = chunk[position + 1] as usize;
                sums.add(log_sum_exp(logits) - logits[next] as f64);
            };
            self.each_row(&chunk[..chunk.len() - 1], N_UNSCORED - 1, score)?;
            running = sums.perplexity(i + 1);
            if !on_chunk(&running) {
                break;
            }
        }
        Ok(running)
    }

    /// Computes `tokens` in a sequence of their own and calls `visit` with every position from `first` on and its
    /// logits `[n_vocab] f32`, a few rows at a time.
    pub fn each_row(
        &mut self,
        tokens: &[u32],
        first: usize,
        visit: impl FnMut(usize, &[f32]),
    ) -> Result<(), EngineError> {
        let (n_prompt, n_ctx) = (tokens.len(), self.n_ctx());
        if n_prompt > n_ctx {
            return Err(EngineError::PromptTooLong { n_prompt, n_ctx });
        }
        let seq = self.kv_mut().open()?;
        let result = self.rows_of(seq, tokens, first, visit);
        self.kv_mut().close(seq)?;
        result
    }

    fn rows_of(
        &mut self,
        seq: SeqId,
        tokens: &[u32],
        first: usize,
        mut visit: impl FnMut(usize, &[f32]),
    ) -> Result<(), EngineError> {
        let (unseen, seen) = tokens.split_at(first.min(tokens.len()));
        if !unseen.is_empty() {
            let mut batch = Batch::new();
            unseen.iter().for_each(|&token| batch.push(seq, token, false));
            self.decode(&batch)?;
        }
        let mut position = unseen.len();
        for rows in seen.chunks(ROWS) {
            let logits = self.decode(&Batch::scored(seq, rows))?;
            for row in logits.rows() {
                visit(position, row);
                position += 1;
            }
        }
        Ok(())
    }
}
