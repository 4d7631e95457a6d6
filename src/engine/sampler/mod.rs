//! From logits to a token: penalties and biases, then a list of stages that narrow the candidates, then one draw.
//!
//! Temperature 0 means greedy: the largest logit after penalties and biases, the smallest id among equals. Otherwise
//! the stages run in the order of [`SamplerOptions::stages`], and at least one candidate always stays. The same seed,
//! options and logits give the same tokens on every machine.

mod candidates;
mod options;
mod penalties;
mod stages;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use candidates::Candidates;
use penalties::History;

pub use options::{OptionError, SamplerOptions, Stage};

/// Why no token can be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// A logit is NaN or positive infinity: the model or its file is broken.
    #[error("model produced {value} for token {id}")]
    NotFinite {
        /// The first such token.
        id: u32,
        /// `NaN` or `inf`.
        value: &'static str,
    },
    /// Every token is banned.
    #[error("no token can be drawn: all {n_vocab} logits are -inf")]
    NoCandidate {
        /// Length of the logits.
        n_vocab: usize,
    },
}

/// Draws tokens; keeps the random generator and the recent tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SamplerOptions,
    rng: ChaCha8Rng,
    history: History,
    candidates: Candidates,
}

impl Sampler {
    /// A sampler with an empty history. The options must be in range.
    pub fn new(options: SamplerOptions) -> Result<Sampler, OptionError> {
        options.check()?;
        Ok(Sampler {
            rng: ChaCha8Rng::seed_from_u64(options.seed),
            history: History::new(options.penalty_last_n),
            candidates: Candidates::default(),
            options,
        })
    }

    /// The options it was made with.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// Puts a token into the history that penalties look at: prompt tokens before the first draw, then each token
    /// drawn.
    pub fn accept(&mut self, id: u32) {
        self.history.push(id);
    }

    /// Draws a token from `logits` `[n_vocab] f32`. Does not put it into the history.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SampleError> {
        if let Some(id) = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            let value = if logits[id].is_nan() { "NaN" } else { "inf" };
            return Err(SampleError::NotFinite { id: id as u32, value });
        }
        self.candidates.fill(logits);
        penalties::apply(&mut self.candidates, &self.options, &self.history);
        self.candidates.drop_banned();
        if self.candidates.is_empty() {
            return Err(SampleError::NoCandidate { n_vocab: logits.len() });
        }
        if self.options.temperature == 0.0 {
            return Ok(self.candidates.best());
        }
        for &stage in &self.options.stages {
            stages::apply(stage, &self.options, &mut self.candidates);
        }
        let uniform = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        Ok(self.candidates.draw(uniform))
    }
}

#[cfg(test)]
mod tests;
