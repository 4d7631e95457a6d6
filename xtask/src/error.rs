//! Why a chore failed.

use std::io;
use std::path::PathBuf;

/// One reason per line that a person can act on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The arguments make no sense; holds the usage text.
    #[error("unknown arguments\n{0}")]
    Usage(&'static str),
    /// A flag or its value makes no sense.
    #[error("{what}: expected {expected}, got {got}")]
    BadArgument {
        /// The flag.
        what: String,
        /// What makes sense.
        expected: String,
        /// What was given.
        got: String,
    },
    /// A program ended well but did not print its result.
    #[error("`{command}` printed no result")]
    NoResult {
        /// The command line.
        command: String,
    },
    /// A program could not be started.
    #[error("cannot start `{command}`: {source}")]
    Start {
        /// The command line.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program ended badly.
    #[error("`{command}` ended with {status}")]
    Status {
        /// The command line.
        command: String,
        /// Exit code or signal, in words.
        status: std::process::ExitStatus,
    },
    /// A file or folder could not be used.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Findings of the tidy checks, already printed.
    #[error("{0} tidy finding(s)")]
    Untidy(usize),
    /// `pull` ended well, yet the store has no file of the expected size.
    #[error("{reference}: expected a file of {size_bytes} bytes under {store}, found none", store = store.display())]
    ModelMissing {
        /// The model reference that was pulled.
        reference: &'static str,
        /// Size of the file the tests are made for.
        size_bytes: u64,
        /// Where it was looked for.
        store: PathBuf,
    },
    /// A test runner ended well, but no summary was found in its output, so nothing shows that tests ran.
    #[error("`{command}` reported no tests")]
    NoTests {
        /// The command line.
        command: String,
    },
    /// There is no fuzz target of this name.
    #[error("no fuzz target `{name}`; there are: {known}")]
    UnknownTarget {
        /// The name asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// The machine lacks programs, and this is not a system where they can be installed by themselves.
    #[error("please install: {0}")]
    Lacks(String),
    /// A step of `ci` failed.
    #[error("step `{step}` failed after {seconds:.1} s: {source}")]
    Step {
        /// Name of the step.
        step: &'static str,
        /// Time it took.
        seconds: f64,
        /// What happened.
        source: Box<Error>,
    },
}

impl Error {
    /// For `map_err` on file operations on `path`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
