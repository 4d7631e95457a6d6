//! Between text and token ids: the tokenizer, streaming decode, and the chat template.
//!
//! | file | question it answers |
//! |---|---|
//! | `vocab` | what a GGUF file says about its vocabulary |
//! | `load` | what of it can be used, and what is wrong with it |
//! | `tokenizer` | text → ids and id → bytes; the type everyone else uses |
//! | `pretokenizer` | how text is cut into words before merging, per `tokenizer.ggml.pre` |
//! | `bpe` | how a word becomes ids |
//! | `specials` | where control tokens are spelled out in a text |
//! | `roles` | which tokens are control tokens and which end a generation |
//! | `pieces`, `decode` | the bytes of a token; ids → whole UTF-8, one token at a time |
//! | `prompt` | a rendered chat in which the user's text is marked as not trusted |
//! | `chat` | messages → prompt |
//!
//! No Unicode normalisation is applied anywhere: a GGUF carries no such flag and the reference ids are made without it.

mod alphabet;
mod bpe;
pub mod chat;
mod decode;
mod error;
mod load;
mod pieces;
mod pretokenizer;
mod prompt;
mod roles;
mod specials;
mod table;
mod tokenizer;
mod vocab;

pub use chat::{ChatTemplate, RenderInput, TemplateError};
pub use decode::StreamDecoder;
pub use error::{EncodeError, TokenizerError};
pub use prompt::Prompt;
pub use tokenizer::{Specials, Tokenizer};
pub use vocab::{SpecialIds, TokenType, Vocab};
