//! The errors of the engine: those of every layer below it, and its own.

use std::path::PathBuf;

use super::SampleError;
use super::offload::{DeviceNeed, mib as exact_mib};
use crate::error::Hint;
use crate::gguf::GgufError;
use crate::graph::{BackendError, BackendId, GraphError};
use crate::kv::KvError;
use crate::models::ModelError;
use crate::tensor::DType;
use crate::text::{EncodeError, TemplateError, TokenizerError};
use crate::threads::ThreadsError;

/// What can go wrong between a file and its text.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The file cannot be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The file can be read but is no model that this engine runs.
    #[error("{}: {source}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<ModelError>,
    },
    /// The file's vocabulary cannot be used.
    #[error("{}: {source}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<TokenizerError>,
    },
    /// The chat template that the caller gave cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Vocabulary and embedding table disagree.
    #[error(
        "{}: tokenizer.ggml.tokens: expected {n_vocab} entries as token_embd.weight has rows, got {n_tokens}",
        path.display()
    )]
    VocabSize {
        /// The file.
        path: PathBuf,
        /// Rows of the embedding table.
        n_vocab: usize,
        /// Tokens of the vocabulary.
        n_tokens: usize,
    },
    /// The worker threads cannot be started.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// A text cannot be tokenised.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A graph cannot be built or run.
    #[error(transparent)]
    Graph(Box<GraphError>),
    /// Sequences and pages.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// No token can be chosen.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A context setting that cannot be.
    #[error("context: {what}: expected {expected}, got {got}")]
    BadOption {
        /// The setting.
        what: &'static str,
        /// What is possible.
        expected: String,
        /// What was asked for.
        got: usize,
    },
    /// A device cannot be used as it should be.
    #[error("{backend}: {what}: {source}")]
    Device {
        /// What was tried.
        what: &'static str,
        /// The device's backend.
        backend: BackendId,
        /// What it says.
        source: Box<BackendError>,
    },
    /// The blocks that were asked for do not fit onto the device.
    #[error(
        "{gpu_layers} of {n_layer} layers on {backend}: expected at most {:.1} MiB, got {:.1} MiB: {need}",
        exact_mib(*budget_bytes), exact_mib(need.total_bytes())
    )]
    OffloadTooBig {
        /// The device's backend.
        backend: BackendId,
        /// Blocks asked for.
        gpu_layers: usize,
        /// Blocks of the model.
        n_layer: usize,
        /// What they need.
        need: DeviceNeed,
        /// What may be taken.
        budget_bytes: usize,
        /// Blocks that would fit.
        n_fitting: usize,
    },
    /// The keys or the values of one layer are more than the device can hold in one piece.
    #[error(
        "keys or values of a layer on {backend}: expected at most {:.1} MiB, got {:.1} MiB",
        exact_mib(*max), exact_mib(*got)
    )]
    RegionTooLarge {
        /// The device's backend.
        backend: BackendId,
        /// Their bytes.
        got: usize,
        /// Bytes that there may be.
        max: usize,
    },
    /// The format of keys and values does not fit the model.
    #[error("context: keys and values as {format}: {what}: expected a multiple of {block_elems}, got {got}")]
    KvFormat {
        /// The format.
        format: DType,
        /// Which size of the model.
        what: &'static str,
        /// Elements that the format stores together.
        block_elems: usize,
        /// The size.
        got: usize,
    },
    /// Keys and values of the context do not fit.
    #[error(
        "context of {n_ctx} tokens: keys and values{} need {bytes} bytes ({} MiB): expected at most {} MiB",
        place(*device), mib(*bytes), mib(*budget_bytes as u128)
    )]
    ContextTooBig {
        /// The device on which they do not fit; `None` for the host.
        device: Option<BackendId>,
        /// Tokens asked for.
        n_ctx: usize,
        /// What they need.
        bytes: u128,
        /// What may be used.
        budget_bytes: usize,
    },
    /// A prompt does not fit into the context.
    #[error("prompt of {n_prompt} tokens: expected at most {n_ctx}, the length of the context")]
    PromptTooLong {
        /// Tokens of the prompt.
        n_prompt: usize,
        /// Tokens of the context.
        n_ctx: usize,
    },
    /// There is nothing to compute.
    #[error("empty prompt: expected at least one token")]
    EmptyPrompt,
    /// A token id beyond the vocabulary.
    #[error("token id {id}: expected less than {n_vocab}, the size of the vocabulary")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// The model's output is not a number.
    #[error("model produced NaN: logits of row {row}")]
    NanLogits {
        /// Row of the batch's logits.
        row: usize,
    },
    /// Too little text to score.
    #[error("text of {n_tokens} tokens: expected at least {expected}")]
    TextTooShort {
        /// Tokens of the text.
        n_tokens: usize,
        /// Tokens of one chunk.
        expected: usize,
    },
    /// A device takes part, whose results may depend on what is computed together, so drafts could change the
    /// answer.
    #[error("draft: expected a model that runs on the CPU alone, got one with {backend}")]
    DraftOnDevice {
        /// The device's backend.
        backend: BackendId,
    },
    /// The draft model's tokens are not the model's.
    #[error("draft model: {what}: expected {expected} as in the model, got {got}")]
    DraftVocab {
        /// Which token, or their number.
        what: String,
        /// The model's.
        expected: String,
        /// The draft model's.
        got: String,
    },
    /// The caller raised the cancellation flag.
    #[error("cancelled")]
    Cancelled,
}

impl From<GraphError> for EngineError {
    fn from(error: GraphError) -> EngineError {
        EngineError::Graph(Box::new(error))
    }
}

fn place(device: Option<BackendId>) -> String {
    device.map_or(String::new(), |device| format!(" on {device}"))
}

/// Whole MiB, rounded up.
fn mib(bytes: u128) -> u128 {
    bytes.div_ceil(1 << 20)
}

impl Hint for EngineError {
    fn hint(&self) -> Option<String> {
        match self {
            EngineError::Gguf(error) => error.hint(),
            EngineError::Model { source, .. } => source.hint(),
            EngineError::Tokenizer { source, .. } => source.hint(),
            EngineError::Threads(error) => error.hint(),
            EngineError::Template(error) => error.hint(),
            EngineError::Encode(error) => error.hint(),
            EngineError::Graph(error) => error.hint(),
            EngineError::Device { source, .. } => Some(source.hint().unwrap_or_else(|| {
                "`minfer doctor` shows what is there; `--backend cpu` does without the device".to_string()
            })),
            EngineError::OffloadTooBig { n_fitting, .. } => Some(format!(
                "{n_fitting} layers fit; a smaller context needs less; --gpu-memory allows more"
            )),
            EngineError::RegionTooLarge { .. } => Some(
                "a smaller context, or keys and values as f16 or q8_0, needs less; --gpu-layers 0 does without"
                    .to_string(),
            ),
            EngineError::ContextTooBig { device: Some(_), .. } => Some(
                "fewer layers on the device, a smaller context, or f16 keys and values needs less"
                    .to_string(),
            ),
            EngineError::ContextTooBig { .. } => {
                Some("a smaller context, or keys and values as f16 or q8_0, needs less".to_string())
            }
            EngineError::KvFormat { .. } => Some("f16 keys and values suit every model".to_string()),
            EngineError::PromptTooLong { .. } => {
                Some("shorten the prompt or use a larger context".to_string())
            }
            EngineError::NanLogits { .. } => Some(
                "the weights hold NaN, or the file is damaged: compare its checksum with the source"
                    .to_string(),
            ),
            EngineError::DraftOnDevice { .. } => Some(
                "`--backend cpu` keeps the model on the CPU; without drafts it may use the device"
                    .to_string(),
            ),
            EngineError::DraftVocab { .. } => {
                Some("a smaller model of the same family; `--draft ngram` needs none".to_string())
            }
            EngineError::Kv(KvError::Full { .. }) => {
                Some("use a larger context, or close sequences that are no longer needed".to_string())
            }
            _ => None,
        }
    }
}
