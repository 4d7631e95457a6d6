//! Drafts: cheap guesses at the next tokens, which the model checks all at once.
//!
//! A step of one token reads every weight, and so does a step of nine. Drafted tokens are computed together
//! with the token before them, and only those stay that the sampler chooses too, so an answer is the same
//! with and without drafts: the logits of a token do not depend on what it is computed with.
//!
//! | file | where guesses come from |
//! |---|---|
//! | `ngram` | what followed the same tokens earlier in the text |
//! | `model` | a smaller model with the same vocabulary |

mod model;
mod ngram;

use std::sync::atomic::AtomicBool;

use super::{Context, EngineError};
use model::ModelDraft;

/// Tokens drafted at once unless said otherwise.
pub const DEFAULT_DRAFT_MAX: usize = 8;

/// Guesses the next tokens of one conversation.
#[derive(Debug)]
pub struct Draft {
    source: Source,
    length: Length,
}

#[derive(Debug)]
enum Source {
    Ngram,
    Model(Box<ModelDraft>),
}

impl Draft {
    /// Guesses what followed the same tokens earlier in the prompt or the answer, at most `n_max` tokens at
    /// once.
    pub fn ngram(n_max: usize) -> Draft {
        Draft { source: Source::Ngram, length: Length::new(n_max) }
    }

    /// Guesses at most `n_max` tokens at once with the model of `context`, which becomes the draft's own.
    pub fn model(context: Context, n_max: usize) -> Result<Draft, EngineError> {
        let model = ModelDraft::new(context)?;
        Ok(Draft { source: Source::Model(Box::new(model)), length: Length::new(n_max) })
    }

    /// Whether this draft can be checked by the model of `target`.
    ///
    /// # Errors
    /// [`EngineError::DraftOnDevice`] if a device computes part of `target`, whose results may depend on what
    /// is computed together; [`EngineError::DraftVocab`] if a model drafts whose tokens are others.
    pub(super) fn check(&self, target: &Context) -> Result<(), EngineError> {
        if let Some(device) = target.engine().device() {
            return Err(EngineError::DraftOnDevice { backend: device.id() });
        }
        match &self.source {
            Source::Ngram => Ok(()),
            Source::Model(model) => model.check(target.engine()),
        }
    }

    /// At most `n_max` tokens that may follow `tokens`.
    pub(super) fn propose(
        &mut self,
        tokens: &[u32],
        n_max: usize,
        cancel: &AtomicBool,
    ) -> Result<Vec<u32>, EngineError> {
        let n_max = n_max.min(self.length.now);
        match &mut self.source {
            _ if n_max == 0 => Ok(Vec::new()),
            Source::Ngram => Ok(ngram::continuation(tokens, n_max)),
            Source::Model(model) => model.continuation(tokens, n_max, cancel),
        }
    }

    /// Learns how many of `n_drafted` tokens were right.
    pub(super) fn learn(&mut self, n_drafted: usize, n_accepted: usize) {
        self.length.learn(n_drafted, n_accepted);
    }
}

/// How many tokens to draft: more after success and fewer after failure, because wrong ones cost time. Powers
/// of two, so that few graphs serve all steps.
#[derive(Clone, Copy, Debug)]
struct Length {
    now: usize,
    max: usize,
}

impl Length {
    fn new(max: usize) -> Length {
        Length { now: max, max }
    }

    fn learn(&mut self, n_drafted: usize, n_accepted: usize) {
        if n_drafted == 0 {
            return;
        }
        self.now = match n_accepted {
            n if n == n_drafted => (2 * self.now).min(self.max),
            n if 2 * n < n_drafted => (self.now / 2).max(1),
            _ => self.now,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_grow_with_success_and_shrink_with_failure() {
        let mut length = Length::new(8);
        let mut after = |n_drafted, n_accepted| {
            length.learn(n_drafted, n_accepted);
            length.now
        };
        assert_eq!([after(8, 8), after(8, 4), after(8, 3), after(4, 0), after(2, 0)], [8, 8, 4, 2, 1]);
        assert_eq!([after(1, 0), after(0, 0), after(1, 1), after(2, 2), after(2, 2)], [1, 1, 2, 4, 8]);
    }
}
