//! One conversation: a sequence that remembers which tokens its keys and values belong to.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Batch, Context, Draft, EngineError, Logits};
use crate::kv::SeqId;

/// A sequence and the tokens whose keys and values it holds. A new prompt computes only what differs from them.
#[derive(Debug)]
pub struct Session {
    seq: SeqId,
    tokens: Vec<u32>,
    /// Guesses what comes next.
    pub(super) draft: Option<Draft>,
}

impl Session {
    /// Opens a sequence in `context`.
    pub fn open(context: &mut Context) -> Result<Session, EngineError> {
        Ok(Session { seq: context.kv_mut().open()?, tokens: Vec::new(), draft: None })
    }

    /// Has answers drafted from now on; they stay the same, bit for bit, and may come faster.
    ///
    /// # Errors
    /// [`EngineError::DraftOnDevice`] if a device takes part, [`EngineError::DraftVocab`] if a model drafts
    /// whose tokens are not those of `context`'s model.
    pub fn set_draft(&mut self, context: &Context, draft: Draft) -> Result<(), EngineError> {
        draft.check(context)?;
        self.draft = Some(draft);
        Ok(())
    }

    /// Gives the sequence's pages back.
    pub fn close(self, context: &mut Context) -> Result<(), EngineError> {
        Ok(context.kv_mut().close(self.seq)?)
    }

    /// The sequence.
    pub fn seq(&self) -> SeqId {
        self.seq
    }

    /// The tokens whose keys and values are there.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Keeps only the first `n_tokens`.
    pub fn truncate(&mut self, context: &mut Context, n_tokens: usize) -> Result<(), EngineError> {
        context.kv_mut().truncate(self.seq, n_tokens)?;
        self.tokens.truncate(n_tokens);
        Ok(())
    }

    /// Makes the sequence hold exactly `prompt`, up to its last token: goes back to the longest common beginning.
    /// Returns the number of tokens that are there already; at least the last one of `prompt` is not, because its
    /// logits are wanted.
    pub fn rewind(&mut self, context: &mut Context, prompt: &[u32]) -> Result<usize, EngineError> {
        let n_common = self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let n_kept = n_common.min(prompt.len().saturating_sub(1));
        self.truncate(context, n_kept)?;
        Ok(n_kept)
    }

    /// Computes `tokens` after those that are there, in chunks between which `cancel` is read, and returns the logits
    /// after the last.
    pub fn extend<'c>(
        &mut self,
        context: &'c mut Context,
        tokens: &[u32],
        cancel: &AtomicBool,
    ) -> Result<Logits<'c>, EngineError> {
        let n_last = match tokens.len() % context.n_batch() {
            0 => tokens.len().min(context.n_batch()),
            n => n,
        };
        let (head, last) = tokens.split_at(tokens.len() - n_last);
        for chunk in head.chunks(context.n_batch()) {
            self.compute(context, chunk, false, cancel)?;
        }
        self.compute(context, last, true, cancel)
    }

    /// Computes `token` and, together with it, the guesses after it; returns the logits after each. Guesses
    /// that cannot be computed are dropped, so that they never cause an error.
    pub(super) fn extend_drafted<'c>(
        &mut self,
        context: &'c mut Context,
        token: u32,
        guesses: &mut Vec<u32>,
        cancel: &AtomicBool,
    ) -> Result<Logits<'c>, EngineError> {
        if !guesses.is_empty() && !cancel.load(Ordering::Relaxed) {
            let tokens = [&[token], &guesses[..]].concat();
            if context.decode(&Batch::scored(self.seq, &tokens)).is_ok() {
                self.tokens.extend(tokens);
                return Ok(context.logits());
            }
        }
        guesses.clear();
        self.extend(context, &[token], cancel)
    }

    fn compute<'c>(
        &mut self,
        context: &'c mut Context,
        chunk: &[u32],
        want_logits: bool,
        cancel: &AtomicBool,
    ) -> Result<Logits<'c>, EngineError> {
        if cancel.load(Ordering::Relaxed) {
            return Err(EngineError::Cancelled);
        }
        let mut batch = Batch::new();
        for (i, &token) in chunk.iter().enumerate() {
            batch.push(self.seq, token, want_logits && i + 1 == chunk.len());
        }
        let logits = context.decode(&batch)?;
        self.tokens.extend_from_slice(chunk);
        Ok(logits)
    }
}
