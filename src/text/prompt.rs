//! A prompt in which the template's text can be told from the user's.

use std::ops::Range;

/// A rendered chat whose untrusted places are marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    text: String,
    untrusted: Vec<Range<usize>>,
}

impl Prompt {
    /// `untrusted` are byte ranges of `text`, sorted, not overlapping.
    pub(super) fn new(text: String, untrusted: Vec<Range<usize>>) -> Self {
        Self { text, untrusted }
    }

    /// The text, as the template renders it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Byte ranges of [`text`](Self::text), sorted, not overlapping: no control token may touch them.
    pub fn untrusted(&self) -> &[Range<usize>] {
        &self.untrusted
    }
}
