//! A smaller model that guesses for a larger one.

use std::fmt;
use std::sync::atomic::AtomicBool;

use super::super::{Context, Engine, EngineError, Session, arg_max, log_sum_exp};
use crate::text::TokenType;

/// A guess less probable than this is not worth checking.
const MIN_PROBABILITY: f64 = 0.5;

/// The smaller model with its own keys and values of the conversation.
pub(super) struct ModelDraft {
    context: Context,
    session: Session,
}

impl ModelDraft {
    pub(super) fn new(mut context: Context) -> Result<ModelDraft, EngineError> {
        let session = Session::open(&mut context)?;
        Ok(ModelDraft { context, session })
    }

    /// Refuses a target with other tokens. Their ids are exchanged, so each must spell and mean the same.
    pub(super) fn check(&self, target: &Engine) -> Result<(), EngineError> {
        let (ours, theirs) = (self.context.engine().tokenizer(), target.tokenizer());
        let (n_vocab, n_expected) = (ours.n_vocab(), theirs.n_vocab());
        if n_vocab != n_expected {
            return Err(EngineError::DraftVocab {
                what: "number of tokens".to_string(),
                expected: n_expected.to_string(),
                got: n_vocab.to_string(),
            });
        }
        let (ours, theirs) = (self.context.engine(), target);
        match (0..n_vocab as u32).find(|&id| spelling(ours, id) != spelling(theirs, id)) {
            None => Ok(()),
            Some(id) => Err(EngineError::DraftVocab {
                what: format!("token {id}"),
                expected: shown(spelling(theirs, id)),
                got: shown(spelling(ours, id)),
            }),
        }
    }

    /// At most `n_max` tokens that the model finds most probable after `tokens`, up to the first of which it
    /// is unsure. None if the context is full.
    pub(super) fn continuation(
        &mut self,
        tokens: &[u32],
        n_max: usize,
        cancel: &AtomicBool,
    ) -> Result<Vec<u32>, EngineError> {
        let ModelDraft { context, session } = self;
        let n_max = n_max.min((context.n_ctx() + 1).saturating_sub(tokens.len()));
        let mut guesses = Vec::new();
        if n_max == 0 {
            return Ok(guesses);
        }
        let n_kept = session.rewind(context, tokens)?;
        let mut next = tokens[n_kept..].to_vec();
        while guesses.len() < n_max {
            let logits = session.extend(context, &next, cancel)?.row(0);
            let guess = arg_max(logits);
            let probability = (f64::from(logits[guess as usize]) - log_sum_exp(logits)).exp();
            if probability < MIN_PROBABILITY {
                break;
            }
            guesses.push(guess);
            next = vec![guess];
        }
        Ok(guesses)
    }
}

/// What token `id` is for, and its text as the file has it: what a control token prints is nothing.
fn spelling(engine: &Engine, id: u32) -> (TokenType, &[u8]) {
    let tokens = engine.gguf().metadata().require_str_array("tokenizer.ggml.tokens");
    let text = tokens.ok().and_then(|tokens| tokens.get(id as usize)).unwrap_or_default();
    (engine.tokenizer().token_type(id), text)
}

fn shown((kind, text): (TokenType, &[u8])) -> String {
    format!("{kind:?} {:?}", String::from_utf8_lossy(text))
}

impl fmt::Debug for ModelDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelDraft").field("session", &self.session).finish_non_exhaustive()
    }
}
