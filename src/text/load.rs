//! Steps from a [`Vocab`](super::Vocab) to the tables of a tokenizer. Faults that can be worked around are dropped
//! with a sentence in `warnings`; the others are errors.

use super::alphabet;
use super::bpe::{Bpe, NO_ID};
use super::error::TokenizerError;
use super::pretokenizer::{DEFAULT_NAME, Pretokenizer};
use super::specials::{Special, SpecialSet};
use super::table::{Merge, MergeTable, Taken, TextIndex};
use super::vocab::TokenType;
use crate::gguf::StrArray;

/// Ids and ranks count in 32 bits and keep the highest value for "none".
pub(super) fn check_size(key: &'static str, array: &StrArray) -> Result<(), TokenizerError> {
    if array.len() >= u32::MAX as usize {
        return Err(TokenizerError::TooLarge { key, got: array.len() });
    }
    Ok(())
}

/// The rule that the file names, or the default one.
pub(super) fn pretokenizer(
    name: Option<&str>,
    warnings: &mut Vec<String>,
) -> Result<Pretokenizer, TokenizerError> {
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| {
        warnings.push(
            "tokenizer.ggml.pre: missing; words are cut by the default rule, which may be wrong".into(),
        );
        DEFAULT_NAME
    });
    Pretokenizer::named(name).ok_or_else(|| TokenizerError::Pre { got: name.to_owned() })
}

/// One type per token.
pub(super) fn token_types(
    tokens: &StrArray,
    types: Option<Vec<i64>>,
    warnings: &mut Vec<String>,
) -> Result<Vec<TokenType>, TokenizerError> {
    let key = "tokenizer.ggml.token_type";
    let Some(types) = types else { return Ok(vec![TokenType::Normal; tokens.len()]) };
    if types.len() < tokens.len() {
        return Err(TokenizerError::Length { key, expected: tokens.len(), got: types.len() });
    }
    if types.len() > tokens.len() {
        warnings.push(format!(
            "{key}: {} entries for {} tokens; the rest ignored",
            types.len(),
            tokens.len()
        ));
    }
    Ok(types.iter().take(tokens.len()).map(|&number| number.into()).collect())
}

/// Text → id over all tokens.
pub(super) fn index(tokens: &StrArray, warnings: &mut Vec<String>) -> Result<TextIndex, TokenizerError> {
    let mut index = TextIndex::with_capacity(tokens.len());
    let mut n_odd = 0;
    for id in 0..tokens.len() as u32 {
        let text = tokens.get(id as usize).unwrap_or_default();
        if text.is_empty() {
            n_odd += 1;
            continue;
        }
        n_odd += usize::from(std::str::from_utf8(text).is_err());
        index.insert(tokens, id).map_err(|Taken(first)| TokenizerError::Duplicate {
            text: String::from_utf8_lossy(text).into_owned(),
            first,
            second: id,
        })?;
    }
    if n_odd > 0 {
        warnings.push(format!("tokenizer.ggml.tokens: {n_odd} of {} are empty or not UTF-8", tokens.len()));
    }
    Ok(index)
}

/// The merges as ids, and the id of each byte.
pub(super) fn bpe(
    tokens: &StrArray,
    index: &TextIndex,
    merges: &StrArray,
    warnings: &mut Vec<String>,
) -> Bpe {
    let mut byte_ids = [NO_ID; 256];
    for (byte, id) in byte_ids.iter_mut().enumerate() {
        let mut spelled = Vec::new();
        alphabet::encode_into(&[byte as u8], &mut spelled);
        *id = index.get(tokens, &spelled).unwrap_or(NO_ID);
    }
    let mut table = MergeTable::with_capacity(merges.len());
    let mut reader = MergeReader { tokens, index, joined: Vec::new(), last: 0 };
    let mut dropped = Vec::new();
    for (rank, merge) in merges.iter().enumerate() {
        match reader.read(merge) {
            Some((left, right, merged)) => table.insert(left, right, Merge { rank: rank as u32, merged }),
            None => dropped.push(rank),
        }
    }
    if let Some(&first) = dropped.first() {
        warnings.push(format!(
            "tokenizer.ggml.merges: {} of {} join no two tokens to a third and are ignored, the first is '{}'",
            dropped.len(),
            merges.len(),
            String::from_utf8_lossy(merges.get(first).unwrap_or_default()),
        ));
    }
    Bpe { merges: table, byte_ids }
}

/// Turns `left right` into ids.
struct MergeReader<'a> {
    tokens: &'a StrArray,
    index: &'a TextIndex,
    joined: Vec<u8>,
    /// Result of the merge before: in most vocabularies the next one follows it.
    last: u32,
}

impl MergeReader<'_> {
    fn read(&mut self, merge: &[u8]) -> Option<(u32, u32, u32)> {
        // A leading space belongs to the left part.
        let space = merge.iter().skip(1).position(|&b| b == b' ')? + 1;
        let (left, right) = (&merge[..space], &merge[space + 1..]);
        let ids = (self.index.get(self.tokens, left)?, self.index.get(self.tokens, right)?);
        let merged = self.merged(left, right)?;
        self.last = merged;
        Some((ids.0, ids.1, merged))
    }

    fn merged(&mut self, left: &[u8], right: &[u8]) -> Option<u32> {
        let guess = self.last.wrapping_add(1);
        let text = self.tokens.get(guess as usize).unwrap_or_default();
        if text.len() == left.len() + right.len() && text.starts_with(left) && text.ends_with(right) {
            return Some(guess);
        }
        self.joined.clear();
        self.joined.extend_from_slice(left);
        self.joined.extend_from_slice(right);
        self.index.get(self.tokens, &self.joined)
    }
}

/// The tokens that are matched in a text before anything else.
pub(super) fn specials(tokens: &StrArray, types: &[TokenType], warnings: &mut Vec<String>) -> SpecialSet {
    let mut specials = Vec::new();
    for (id, &token_type) in types.iter().enumerate() {
        let trusted_only = match token_type {
            TokenType::Control | TokenType::Unknown => true,
            TokenType::UserDefined => false,
            _ => continue,
        };
        match std::str::from_utf8(tokens.get(id).unwrap_or_default()) {
            Ok(text) => specials.push(Special { id: id as u32, text: text.into(), trusted_only }),
            Err(_) => warnings
                .push(format!("tokenizer.ggml.tokens: special token {id} is not UTF-8; never matched")),
        }
    }
    SpecialSet::new(specials)
}

/// `wanted`, if there is an id to add.
pub(super) fn with_id(role: &str, wanted: bool, id: Option<u32>, warnings: &mut Vec<String>) -> bool {
    if wanted && id.is_none() {
        warnings.push(format!(
            "tokenizer.ggml.add_{role}_token: true, but the file names no {role} token; ignored"
        ));
    }
    wanted && id.is_some()
}
