//! The tokenizer: text → ids and id → bytes, over the byte-level BPE vocabulary of a GGUF.

use std::ops::Range;
use std::sync::Arc;

use super::alphabet;
use super::bpe::{Bpe, Scratch};
use super::decode::StreamDecoder;
use super::error::{EncodeError, TokenizerError};
use super::load;
use super::pieces::Pieces;
use super::pretokenizer::Pretokenizer;
use super::prompt::Prompt;
use super::roles::Roles;
use super::specials::{SpecialSet, Trust};
use super::table::TextIndex;
use super::vocab::{self, SpecialIds, TokenType, Vocab};
use crate::gguf::StrArray;

/// Whether control tokens that a text spells out become control tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// They do: for text whose author may give orders (templates; raw prompts of `run --raw` and of completions).
    Parse,
    /// They are ordinary text: for everything else. User-defined tokens (`<tool_call>`, `<think>`) match all the same.
    Plain,
}

/// Text ↔ ids for one model.
///
/// Matches llama.cpp id for id: special tokens are cut out longest first, the rest is cut into words by the model's
/// rule and merged. No Unicode normalisation. Bytes that the vocabulary cannot spell are left out.
#[derive(Debug)]
pub struct Tokenizer {
    /// Token texts as in the file.
    tokens: StrArray,
    index: TextIndex,
    bpe: Bpe,
    pretokenizer: Pretokenizer,
    specials: SpecialSet,
    pieces: Arc<Pieces>,
    ids: SpecialIds,
    ends: Vec<u32>,
    add_bos: bool,
    add_eos: bool,
    warnings: Vec<String>,
}

impl Tokenizer {
    /// Checks a vocabulary and makes it fast to use. What is wrong but harmless ends up in
    /// [`warnings`](Self::warnings).
    ///
    /// # Errors
    /// [`TokenizerError`] for another algorithm, an unknown pre-tokenizer, arrays that disagree, and duplicate tokens.
    pub fn new(vocab: Vocab<'_>) -> Result<Self, TokenizerError> {
        vocab::check_model(vocab.model)?;
        let mut warnings = Vec::new();
        let pretokenizer = load::pretokenizer(vocab.pre, &mut warnings)?;
        let tokens = vocab.tokens;
        load::check_size("tokenizer.ggml.tokens", tokens)?;
        load::check_size("tokenizer.ggml.merges", vocab.merges)?;
        let mut types = load::token_types(tokens, vocab.types, &mut warnings)?;
        let index = load::index(tokens, &mut warnings)?;
        let bpe = load::bpe(tokens, &index, vocab.merges, &mut warnings);
        let mut ids = vocab.ids;
        let roles =
            Roles { tokens, index: &index, ids: &mut ids, types: &mut types, warnings: &mut warnings };
        let ends = roles.settle();
        let specials = load::specials(tokens, &types, &mut warnings);
        let pieces = Pieces::new(tokens, types);
        let add_bos =
            load::with_id("bos", vocab.add_bos.unwrap_or(pretokenizer.add_bos), ids.bos, &mut warnings);
        let add_eos = load::with_id("eos", vocab.add_eos.unwrap_or(false), ids.eos, &mut warnings);
        let (tokens, pieces) = (tokens.clone(), Arc::new(pieces));
        Ok(Self { tokens, index, bpe, pretokenizer, specials, pieces, ids, ends, add_bos, add_eos, warnings })
    }

    /// The ids of `text`, without BOS or EOS.
    ///
    /// # Errors
    /// [`EncodeError`] when the text is longer than 4 GiB.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>, EncodeError> {
        match specials {
            Specials::Parse => self.encode_trusting(text, Trust::AllBut(&[])),
            Specials::Plain => self.encode_trusting(text, Trust::Nothing),
        }
    }

    /// As [`encode`](Self::encode) for bytes that may not be UTF-8: what is not becomes U+FFFD first.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_bytes(&self, bytes: &[u8], specials: Specials) -> Result<Vec<u32>, EncodeError> {
        self.encode(&String::from_utf8_lossy(bytes), specials)
    }

    /// The ids of `text` as the start of a sequence: BOS before it and EOS after it where the model asks for them.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_sequence(&self, text: &str, specials: Specials) -> Result<Vec<u32>, EncodeError> {
        let mut ids = Vec::new();
        ids.extend(self.ids.bos.filter(|_| self.add_bos));
        ids.extend(self.encode(text, specials)?);
        ids.extend(self.ids.eos.filter(|_| self.add_eos));
        Ok(ids)
    }

    /// The ids of a rendered chat: control tokens come from the template only. Starts with exactly one BOS where the
    /// model asks for one, whether or not the template writes it.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, EncodeError> {
        let mut ids = self.encode_trusting(prompt.text(), Trust::AllBut(prompt.untrusted()))?;
        if let Some(bos) = self.ids.bos.filter(|bos| self.add_bos && ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    fn encode_trusting(&self, text: &str, trust: Trust<'_>) -> Result<Vec<u32>, EncodeError> {
        if u32::try_from(text.len()).is_err() {
            return Err(EncodeError::TooLong { got_bytes: text.len() });
        }
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut scratch = Scratch::default();
        let mut at = 0;
        for hit in self.specials.find(text, trust) {
            self.encode_words(&text[at..hit.range.start], &mut scratch, &mut ids)?;
            ids.push(hit.id);
            at = hit.range.end;
        }
        self.encode_words(&text[at..], &mut scratch, &mut ids)?;
        Ok(ids)
    }

    fn encode_words(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        let mut spelled = Vec::new();
        self.pretokenizer
            .split(text, &mut |word| {
                if self.pretokenizer.whole_words {
                    spelled.clear();
                    alphabet::encode_into(word.as_bytes(), &mut spelled);
                    if let Some(id) = self.index.get(&self.tokens, &spelled) {
                        return ids.push(id);
                    }
                }
                self.bpe.encode(word.as_bytes(), scratch, ids);
            })
            .map_err(EncodeError::Pattern)
    }

    /// The bytes that `id` stands for; not always UTF-8. Empty for an id beyond the vocabulary.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.pieces.bytes(id)
    }

    /// What `id` is for.
    pub fn token_type(&self, id: u32) -> TokenType {
        self.pieces.token_type(id)
    }

    /// Whether `id` is structure, which prints nothing.
    pub fn is_control(&self, id: u32) -> bool {
        self.token_type(id) == TokenType::Control
    }

    /// Whether `id` ends a generation. A model may have several such ids.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// The ids that end a generation, ascending.
    pub fn ends_of_generation(&self) -> &[u32] {
        &self.ends
    }

    /// Number of ids; a model's output may be padded to more.
    pub fn n_vocab(&self) -> usize {
        self.pieces.len()
    }

    /// The ids with a role; every one is within the vocabulary.
    pub fn ids(&self) -> &SpecialIds {
        &self.ids
    }

    /// Beginning of sequence.
    pub fn bos(&self) -> Option<u32> {
        self.ids.bos
    }

    /// End of sequence.
    pub fn eos(&self) -> Option<u32> {
        self.ids.eos
    }

    /// Whether a sequence starts with BOS.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether a complete sequence ends with EOS.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// What is wrong with the vocabulary but could be worked around, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The id whose text in the file is `text`.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        self.index.get(&self.tokens, text.as_bytes())
    }

    /// A decoder for one stream of ids. It does not borrow the tokenizer.
    pub fn decoder(&self) -> StreamDecoder {
        StreamDecoder::new(Arc::clone(&self.pieces))
    }

    /// The text of `ids`, control tokens left out and bytes that are not UTF-8 as U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut decoder = self.decoder();
        let mut text: String = ids.iter().map(|&id| decoder.push(id)).collect();
        text.push_str(&decoder.finish());
        text
    }

    /// Byte ranges of `text` that spell out control tokens.
    pub(super) fn control_spans(&self, text: &str) -> Vec<Range<usize>> {
        self.specials.control_spans(text)
    }

    /// The texts of the control tokens.
    pub(super) fn control_texts(&self) -> impl Iterator<Item = &str> {
        self.specials.trusted_only_texts()
    }
}
