//! What a GGUF file says about its vocabulary, as plain data.

use super::error::TokenizerError;

/// Many byte strings in one allocation.
#[derive(Clone, Debug, Default)]
pub struct StringTable {
    bytes: Vec<u8>,
    /// End of each string in `bytes`.
    ends: Vec<u32>,
}

impl StringTable {
    /// An empty table with room for `n_strings` strings of `n_bytes` bytes in all.
    pub fn with_capacity(n_strings: usize, n_bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(n_bytes), ends: Vec::with_capacity(n_strings) }
    }

    /// Appends a string; `false`, with the table unchanged, when it is full (4 GiB of bytes or 2³² − 1 strings).
    #[must_use]
    pub fn push(&mut self, string: &[u8]) -> bool {
        match u32::try_from(self.bytes.len() + string.len()) {
            Ok(end) if self.ends.len() < u32::MAX as usize => {
                self.bytes.extend_from_slice(string);
                self.ends.push(end);
                true
            }
            _ => false,
        }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `i`; empty when there is no such string.
    pub fn get(&self, i: usize) -> &[u8] {
        let Some(&end) = self.ends.get(i) else { return &[] };
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start as usize..end as usize]
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Copies `strings`; `key` names the metadata array in the error.
    ///
    /// # Errors
    /// [`TokenizerError::TooLarge`] when the strings do not fit.
    pub fn collect<'s>(
        key: &'static str,
        strings: impl ExactSizeIterator<Item = &'s [u8]>,
    ) -> Result<Self, TokenizerError> {
        let n_strings = strings.len();
        let mut table = Self::with_capacity(n_strings, n_strings.saturating_mul(8));
        for string in strings {
            if !table.push(string) {
                return Err(TokenizerError::TooLarge { key });
            }
        }
        Ok(table)
    }
}

/// What a token is for, as `tokenizer.ggml.token_type` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// Ordinary text.
    Normal,
    /// Stands for what the vocabulary cannot spell; matched like a control token.
    Unknown,
    /// Structure, never text: matched only in trusted text, and prints nothing.
    Control,
    /// Text that is always one token, in any text.
    UserDefined,
    /// Padding of the vocabulary; never matched.
    Unused,
    /// One byte, written `<0xNN>`.
    Byte,
    /// A number without a meaning.
    Undefined,
}

impl From<i32> for TokenType {
    fn from(number: i32) -> Self {
        match number {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => Self::Undefined,
        }
    }
}

/// Ids that the file gives a role, as written there: not checked against the vocabulary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Beginning of sequence.
    pub bos: Option<u32>,
    /// End of sequence.
    pub eos: Option<u32>,
    /// End of turn.
    pub eot: Option<u32>,
    /// End of message (more messages follow in the same turn).
    pub eom: Option<u32>,
    /// Padding.
    pub pad: Option<u32>,
    /// Fill in the middle: before the prefix.
    pub fim_pre: Option<u32>,
    /// Fill in the middle: before the suffix.
    pub fim_suf: Option<u32>,
    /// Fill in the middle: before the part to write.
    pub fim_mid: Option<u32>,
    /// Fill in the middle: padding.
    pub fim_pad: Option<u32>,
    /// Fill in the middle: before a repository's name.
    pub fim_rep: Option<u32>,
    /// Fill in the middle: before a file's name.
    pub fim_sep: Option<u32>,
}

impl SpecialIds {
    /// Every role with its metadata key, for range checks.
    pub(super) fn roles_mut(&mut self) -> [(&'static str, &mut Option<u32>); 11] {
        [
            ("tokenizer.ggml.bos_token_id", &mut self.bos),
            ("tokenizer.ggml.eos_token_id", &mut self.eos),
            ("tokenizer.ggml.eot_token_id", &mut self.eot),
            ("tokenizer.ggml.eom_token_id", &mut self.eom),
            ("tokenizer.ggml.padding_token_id", &mut self.pad),
            ("tokenizer.ggml.fim_pre_token_id", &mut self.fim_pre),
            ("tokenizer.ggml.fim_suf_token_id", &mut self.fim_suf),
            ("tokenizer.ggml.fim_mid_token_id", &mut self.fim_mid),
            ("tokenizer.ggml.fim_pad_token_id", &mut self.fim_pad),
            ("tokenizer.ggml.fim_rep_token_id", &mut self.fim_rep),
            ("tokenizer.ggml.fim_sep_token_id", &mut self.fim_sep),
        ]
    }
}

/// The tokenizer metadata of a model.
#[derive(Clone, Debug, Default)]
pub struct Vocab {
    /// `tokenizer.ggml.model`: the algorithm.
    pub model: String,
    /// `tokenizer.ggml.pre`: how text is cut into words; `None` when the file does not say.
    pub pre: Option<String>,
    /// `tokenizer.ggml.tokens`: the text of each id, in the byte-level alphabet for ordinary tokens.
    pub tokens: StringTable,
    /// `tokenizer.ggml.token_type`: one number per token; `None` means that all are ordinary.
    pub types: Option<Vec<i32>>,
    /// `tokenizer.ggml.merges`: `left right`, most urgent first.
    pub merges: StringTable,
    /// Ids with a role. A role that the file leaves out stays out: no default id is assumed.
    pub ids: SpecialIds,
    /// `tokenizer.ggml.add_bos_token`; `None` leaves it to the pre-tokenizer's custom.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
}
