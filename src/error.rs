//! What every error of this crate offers besides its message: a hint for the person who sees it.

/// An error that may know what the user can do about it.
///
/// `Display` says *what failed: which thing: expected X, got Y* on one line; the hint is printed on a line of its own.
pub trait Hint: std::error::Error {
    /// A suggestion, one sentence, or `None`.
    fn hint(&self) -> Option<String> {
        None
    }
}
