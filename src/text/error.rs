//! What can go wrong with a vocabulary, and with encoding a text.

use crate::error::Hint;
use crate::gguf::MetadataError;

/// Why a vocabulary cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// `tokenizer.ggml.model` names an algorithm that is not byte-level BPE.
    #[error("tokenizer: tokenizer.ggml.model: expected 'gpt2' (byte-level BPE), got '{got}'")]
    Model {
        /// The name in the file.
        got: String,
    },
    /// `tokenizer.ggml.pre` names no known rule.
    #[error("tokenizer: tokenizer.ggml.pre: unknown pre-tokenizer '{got}'")]
    Pre {
        /// The name in the file.
        got: String,
    },
    /// A metadata key is missing or of the wrong type.
    #[error("tokenizer: {0}")]
    Metadata(#[from] MetadataError),
    /// Two arrays that describe the same tokens disagree in length.
    #[error("tokenizer: {key}: expected at least {expected} entries (one per token), got {got}")]
    Length {
        /// The metadata key of the shorter array.
        key: &'static str,
        /// Number of tokens.
        expected: usize,
        /// Entries in the array.
        got: usize,
    },
    /// Two ids share one text, so text cannot be mapped to an id.
    #[error("tokenizer: tokenizer.ggml.tokens: '{text}' is both token {first} and token {second}")]
    Duplicate {
        /// The shared text.
        text: String,
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
    },
    /// An array has more entries than an id can count.
    #[error("tokenizer: {key}: expected under 4294967295 entries, got {got}")]
    TooLarge {
        /// The metadata key.
        key: &'static str,
        /// Entries in the array.
        got: usize,
    },
}

impl Hint for TokenizerError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Model { .. } => {
                Some("only byte-level BPE vocabularies (Qwen, Llama 3, SmolLM, GPT-2 …) work".into())
            }
            Self::Pre { .. } => {
                Some(format!("known pre-tokenizers: {}", super::pretokenizer::known_names().join(", ")))
            }
            _ => None,
        }
    }
}

/// Why a text could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The pre-tokenizer's pattern failed on this text.
    #[error("tokenizer: pre-tokenizer pattern failed: {0}")]
    Pattern(Box<fancy_regex::Error>),
    /// The text is longer than a position can count.
    #[error("tokenizer: text too long: expected under 4294967295 bytes, got {got_bytes}")]
    TooLong {
        /// Length of the text.
        got_bytes: usize,
    },
}

impl Hint for EncodeError {}

impl From<fancy_regex::Error> for EncodeError {
    fn from(error: fancy_regex::Error) -> Self {
        Self::Pattern(Box::new(error))
    }
}
