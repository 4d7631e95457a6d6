//! What a download tells whoever watches it.

/// Receives the progress of downloads. The store itself prints nothing.
pub trait Progress: Sync {
    /// One line worth telling, such as "huggingface.co cannot be reached, trying PyPI".
    fn note(&self, line: &str);

    /// A file starts. `done` bytes are there already; `total` is `None` if the size is unknown.
    fn begin(&self, name: &str, done: u64, total: Option<u64>);

    /// So many bytes of the current file are there now.
    fn at(&self, bytes: u64);

    /// The current file ends, complete or not.
    fn end(&self);
}

/// Ignores everything.
pub struct Silent;

impl Progress for Silent {
    fn note(&self, _line: &str) {}
    fn begin(&self, _name: &str, _done: u64, _total: Option<u64>) {}
    fn at(&self, _bytes: u64) {}
    fn end(&self) {}
}
