//! Which tokens play a role: end of generation, control, fill-in-the-middle.
//!
//! Files are often wrong about this, so tokens with well-known texts get their role from the text, as llama.cpp does.

use super::table::TextIndex;
use super::vocab::{SpecialIds, TokenType};
use crate::gguf::StrArray;

/// Texts that end a generation wherever they are a token.
const END_OF_GENERATION: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Texts of the end of a turn, for files that name none; the first that is a token is taken.
const END_OF_TURN: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];

const END_OF_MESSAGE: &[&str] = &["<|eom_id|>"];
const FIM_PREFIX: &[&str] = &[
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
];
const FIM_SUFFIX: &[&str] = &[
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
];
const FIM_MIDDLE: &[&str] = &[
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
];
const FIM_PADDING: &[&str] = &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"];
const FIM_REPOSITORY: &[&str] = &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"];
const FIM_SEPARATOR: &[&str] = &["<|file_sep|>"];

/// Marks of a channel format whose text has to be seen by whoever reads the answer.
const ALWAYS_PRINTED: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// The roles of a vocabulary being settled.
pub(super) struct Roles<'a> {
    pub(super) tokens: &'a StrArray,
    pub(super) index: &'a TextIndex,
    pub(super) ids: &'a mut SpecialIds,
    pub(super) types: &'a mut [TokenType],
    pub(super) warnings: &'a mut Vec<String>,
}

impl Roles<'_> {
    /// Completes ids and types from well-known texts; returns the ids that end a generation, sorted.
    pub(super) fn settle(mut self) -> Vec<u32> {
        self.drop_ids_beyond_the_vocabulary();
        let mut ids = *self.ids;
        for (role, texts) in [
            (&mut ids.eot, END_OF_TURN),
            (&mut ids.eom, END_OF_MESSAGE),
            (&mut ids.fim_pre, FIM_PREFIX),
            (&mut ids.fim_suf, FIM_SUFFIX),
            (&mut ids.fim_mid, FIM_MIDDLE),
            (&mut ids.fim_pad, FIM_PADDING),
            (&mut ids.fim_rep, FIM_REPOSITORY),
            (&mut ids.fim_sep, FIM_SEPARATOR),
        ] {
            if role.is_none() {
                *role = texts.iter().find_map(|text| self.id_of(text));
                if let Some(id) = *role {
                    self.make_control(id);
                }
            }
        }
        *self.ids = ids;
        let mut ends: Vec<u32> = [ids.fim_pad, ids.fim_rep, ids.fim_sep].into_iter().flatten().collect();
        for text in END_OF_GENERATION {
            if let Some(id) = self.id_of(text) {
                self.make_control(id);
                ends.push(id);
            }
        }
        for text in ALWAYS_PRINTED {
            if let Some(id) = self.id_of(text) {
                self.types[id as usize] = TokenType::UserDefined;
            }
        }
        ends.extend([ids.eos, ids.eot, ids.eom].into_iter().flatten());
        self.keep_marks_inside_an_answer(&mut ends);
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    fn drop_ids_beyond_the_vocabulary(&mut self) {
        let n_vocab = self.tokens.len();
        for (key, role) in self.ids.roles_mut() {
            if let Some(id) = role.take_if(|id| *id as usize >= n_vocab) {
                self.warnings
                    .push(format!("{key}: {id} is beyond the vocabulary of {n_vocab} tokens; ignored"));
            }
        }
    }

    /// Formats that go on after `<|end|>`, and one in which `</s>` is ordinary text.
    fn keep_marks_inside_an_answer(&mut self, ends: &mut Vec<u32>) {
        let ends_with = |text: &str| self.id_of(text).filter(|id| ends.contains(id));
        let calls = ends_with("<|call|>").or(ends_with("<|calls|>")).is_some();
        let goes_on = calls && (ends_with("<|return|>").is_some() || ends_with("<|flush|>").is_some());
        let end = ends_with("<|end|>").filter(|_| goes_on);
        let sentence_end = ends_with("</s>").filter(|_| ends_with("<|tool_response>").is_some());
        for (id, token_type) in [(end, TokenType::UserDefined), (sentence_end, TokenType::Normal)] {
            if let Some(id) = id {
                ends.retain(|&other| other != id);
                self.types[id as usize] = token_type;
            }
        }
    }

    fn id_of(&self, text: &str) -> Option<u32> {
        self.index.get(self.tokens, text.as_bytes())
    }

    fn make_control(&mut self, id: u32) {
        self.types[id as usize] = TokenType::Control;
    }
}
