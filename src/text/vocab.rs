//! What a GGUF file says about its vocabulary, as plain data.

use super::error::TokenizerError;
use crate::gguf::{Metadata, StrArray};

/// Refuses every algorithm but byte-level BPE.
pub(super) fn check_model(model: &str) -> Result<(), TokenizerError> {
    if model == "gpt2" { Ok(()) } else { Err(TokenizerError::Model { got: model.to_owned() }) }
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

impl From<i64> for TokenType {
    fn from(number: i64) -> Self {
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
#[derive(Clone, Debug)]
pub struct Vocab<'a> {
    /// `tokenizer.ggml.model`: the algorithm.
    pub model: &'a str,
    /// `tokenizer.ggml.pre`: how text is cut into words; `None` when the file does not say.
    pub pre: Option<&'a str>,
    /// `tokenizer.ggml.tokens`: the text of each id, in the byte-level alphabet for ordinary tokens.
    pub tokens: &'a StrArray,
    /// `tokenizer.ggml.token_type`: one number per token; `None` means that all are ordinary.
    pub types: Option<Vec<i64>>,
    /// `tokenizer.ggml.merges`: `left right`, most urgent first.
    pub merges: &'a StrArray,
    /// Ids with a role. A role that the file leaves out stays out: no default id is assumed.
    pub ids: SpecialIds,
    /// `tokenizer.ggml.add_bos_token`; `None` leaves it to the pre-tokenizer's custom.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
}

impl<'a> Vocab<'a> {
    /// Reads the `tokenizer.ggml.*` keys.
    ///
    /// # Errors
    /// [`TokenizerError::Metadata`] for a key that is missing or of the wrong type, [`TokenizerError::Model`] before
    /// that for another algorithm, which may have other keys.
    pub fn from_metadata(metadata: &'a Metadata) -> Result<Self, TokenizerError> {
        let model = metadata.require_str("tokenizer.ggml.model")?;
        check_model(model)?;
        let mut ids = SpecialIds::default();
        for (key, role) in ids.roles_mut() {
            *role = metadata.u32(key)?;
        }
        for (key, role) in [
            ("tokenizer.ggml.prefix_token_id", &mut ids.fim_pre),
            ("tokenizer.ggml.suffix_token_id", &mut ids.fim_suf),
            ("tokenizer.ggml.middle_token_id", &mut ids.fim_mid),
        ] {
            *role = role.or(metadata.u32(key)?);
        }
        Ok(Self {
            model,
            pre: metadata.str("tokenizer.ggml.pre")?,
            tokens: metadata.require_str_array("tokenizer.ggml.tokens")?,
            types: metadata.i64_array("tokenizer.ggml.token_type")?,
            merges: metadata.require_str_array("tokenizer.ggml.merges")?,
            ids,
            add_bos: metadata.bool("tokenizer.ggml.add_bos_token")?,
            add_eos: metadata.bool("tokenizer.ggml.add_eos_token")?,
        })
    }
}
