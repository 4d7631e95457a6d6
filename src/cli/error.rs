//! What a subcommand can fail with, and the exit code that goes with it.

use std::path::{Path, PathBuf};

use crate::config::ConfigError;
use crate::engine::EngineError;
use crate::engine::sampler::OptionError;
use crate::error::Hint;
use crate::gguf::GgufError;
use crate::graph::FenceError;
use crate::store::{ReferenceError, StoreError};
use crate::text::{EncodeError, TemplateError, TokenizerError};

/// Exit code of a program that Ctrl-C ended.
pub(super) const INTERRUPTED: u8 = 130;

/// Why a subcommand failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// Arguments that do not fit together.
    #[error("argument: {what}: expected {expected}, got {got}")]
    Usage { what: &'static str, expected: String, got: String, hint: Option<String> },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error(transparent)]
    Fence(#[from] FenceError),
    #[error("sampling: {0}")]
    Option(#[from] OptionError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error(transparent)]
    Engine(Box<EngineError>),
    #[error("{}: {source}", path.display())]
    Tokenizer { path: PathBuf, source: TokenizerError },
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A file that the user named.
    #[error("file: {}: cannot {action}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
    /// Standard input or output.
    #[error("standard {stream}: {source}")]
    Stream { stream: &'static str, source: std::io::Error },
    /// The model has no chat template, but what was asked for needs one.
    #[error("chat template: {what}: expected a template in the model, got none")]
    NoTemplate { what: &'static str },
    /// A backend computes something else than the reference.
    #[error("verify: {what}")]
    OutOfTolerance { what: String },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl CliError {
    /// A [`CliError::Usage`] without a hint.
    pub(super) fn usage(what: &'static str, expected: impl Into<String>, got: impl Into<String>) -> CliError {
        CliError::Usage { what, expected: expected.into(), got: got.into(), hint: None }
    }

    /// For `map_err` on files that the user named.
    pub(super) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CliError {
        let path = path.to_path_buf();
        move |source| CliError::File { action, path, source }
    }

    /// True if the reader of our output has gone, which is no failure.
    pub(super) fn is_closed_pipe(&self) -> bool {
        matches!(self, CliError::Stream { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// 2 for what the user typed, 1 for everything else.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            CliError::Usage { .. } | CliError::Config(_) | CliError::Reference(_) => 2,
            CliError::Fence(_) | CliError::Option(_) => 2,
            CliError::Store(StoreError::Reference(_)) => 2,
            CliError::Interrupted | CliError::Store(StoreError::Cancelled) => INTERRUPTED,
            CliError::Engine(error) if matches!(**error, EngineError::Cancelled) => INTERRUPTED,
            _ => 1,
        }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> CliError {
        CliError::Engine(Box::new(error))
    }
}

impl Hint for CliError {
    fn hint(&self) -> Option<String> {
        match self {
            CliError::Usage { hint, .. } => hint.clone(),
            CliError::Config(error) => error.hint(),
            CliError::Reference(error) => error.hint(),
            CliError::Fence(error) => error.hint(),
            CliError::Store(error) => error.hint(),
            CliError::Gguf(error) => error.hint(),
            CliError::Engine(error) => error.hint(),
            CliError::Tokenizer { source, .. } => source.hint(),
            CliError::Template(error) => error.hint(),
            CliError::Encode(error) => error.hint(),
            CliError::NoTemplate { .. } => {
                Some("give one with --chat-template-file, or use --raw for a plain prompt".to_string())
            }
            _ => None,
        }
    }
}
