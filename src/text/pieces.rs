//! The bytes that each id stands for.

use super::alphabet;
use super::vocab::TokenType;
use crate::gguf::StrArray;

/// Bytes and type of every id.
#[derive(Debug)]
pub(super) struct Pieces {
    bytes: StrArray,
    types: Vec<TokenType>,
}

impl Pieces {
    /// Decodes the token texts; `types` has one entry per token.
    pub(super) fn new(tokens: &StrArray, types: Vec<TokenType>) -> Self {
        let mut bytes = StrArray::with_capacity(tokens.len());
        let mut piece = Vec::new();
        for (text, &token_type) in tokens.iter().zip(&types) {
            piece.clear();
            decode(text, token_type, &mut piece);
            bytes.push(&piece);
        }
        Self { bytes, types }
    }

    /// Number of ids.
    pub(super) fn len(&self) -> usize {
        self.types.len()
    }

    /// Bytes of `id`; empty for an id beyond the vocabulary.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id as usize).unwrap_or_default()
    }

    /// Type of `id`; [`TokenType::Undefined`] for an id beyond the vocabulary.
    pub(super) fn token_type(&self, id: u32) -> TokenType {
        self.types.get(id as usize).copied().unwrap_or(TokenType::Undefined)
    }
}

/// Control and user-defined tokens are plain text in the file; the others are written in the byte-level alphabet.
fn decode(text: &[u8], token_type: TokenType, out: &mut Vec<u8>) {
    let done = match token_type {
        TokenType::Control | TokenType::UserDefined | TokenType::Unknown => false,
        TokenType::Byte => byte_token(text).map(|byte| out.push(byte)).is_some(),
        _ => alphabet::decode_into(text, out),
    };
    if !done {
        out.extend_from_slice(text);
    }
}

/// The byte of a token written `<0xNN>`.
fn byte_token(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
