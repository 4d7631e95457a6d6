//! What one call of the model computes.

use crate::kv::SeqId;

/// A token of a batch. Its position is the next one of its sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchToken {
    /// The sequence that it extends.
    pub seq: SeqId,
    /// The token.
    pub token: u32,
    /// The caller reads the logits that follow it.
    pub want_logits: bool,
}

/// Tokens of one or more sequences, computed together. Tokens of one sequence are in order; how the sequences are
/// mixed is free.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    tokens: Vec<BatchToken>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// `tokens` of one sequence, with logits after the last.
    pub fn prompt(seq: SeqId, tokens: &[u32]) -> Batch {
        let mut batch = Batch::new();
        for (i, &token) in tokens.iter().enumerate() {
            batch.push(seq, token, i + 1 == tokens.len());
        }
        batch
    }

    /// `tokens` of one sequence, with logits after each.
    pub fn scored(seq: SeqId, tokens: &[u32]) -> Batch {
        let mut batch = Batch::new();
        tokens.iter().for_each(|&token| batch.push(seq, token, true));
        batch
    }

    /// Appends the next token of `seq`.
    pub fn push(&mut self, seq: SeqId, token: u32, want_logits: bool) {
        self.tokens.push(BatchToken { seq, token, want_logits });
    }

    /// Appends the tokens of `other`.
    pub fn extend(&mut self, other: Batch) {
        self.tokens.extend(other.tokens);
    }

    /// Removes all tokens.
    pub fn clear(&mut self) {
        self.tokens.clear();
    }

    /// The tokens in order.
    pub fn tokens(&self) -> &[BatchToken] {
        &self.tokens
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// True if there is no token.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}
