//! Ids → text, one id at a time, never splitting a character.

use std::sync::Arc;

use super::pieces::Pieces;
use super::vocab::TokenType;

/// Turns a stream of ids into text that is whole UTF-8 at every step.
///
/// Control tokens print nothing. Bytes that can never become a character come out as U+FFFD at once; bytes that still
/// can wait for the next id, or for [`finish`](Self::finish).
#[derive(Debug)]
pub struct StreamDecoder {
    pieces: Arc<Pieces>,
    pending: Vec<u8>,
}

impl StreamDecoder {
    pub(super) fn new(pieces: Arc<Pieces>) -> Self {
        Self { pieces, pending: Vec::new() }
    }

    /// The text that `id` completes; empty while a character is unfinished and for an id beyond the vocabulary.
    pub fn push(&mut self, id: u32) -> String {
        if matches!(self.pieces.token_type(id), TokenType::Control | TokenType::Unknown) {
            return String::new();
        }
        self.pending.extend_from_slice(self.pieces.bytes(id));
        let mut text = String::new();
        let mut n_taken = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            n_taken += chunk.valid().len();
            let invalid = chunk.invalid();
            if invalid.is_empty()
                || (n_taken + invalid.len() == self.pending.len() && may_become_valid(invalid))
            {
                break;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            n_taken += invalid.len();
        }
        self.pending.drain(..n_taken);
        text
    }

    /// The end of the stream: an unfinished character comes out as U+FFFD.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

/// Whether more bytes can complete `bytes`, an invalid tail, to a character.
fn may_become_valid(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::StrArray;

    fn decoder(tokens: &[&[u8]]) -> StreamDecoder {
        let table = tokens.iter().collect::<StrArray>();
        // User-defined, so that the bytes are taken as they stand.
        let types = vec![TokenType::UserDefined; tokens.len()];
        StreamDecoder::new(Arc::new(Pieces::new(&table, types)))
    }

    #[test]
    fn a_character_appears_when_its_last_byte_does() {
        let mut decoder = decoder(&[b"a\xf0", b"\x9f\x98", b"\x80b"]);
        assert_eq!([decoder.push(0), decoder.push(1), decoder.push(2)], ["a", "", "😀b"]);
        assert_eq!(decoder.finish(), "");
    }

    #[test]
    fn hopeless_bytes_are_replaced_at_once_and_hopeful_ones_at_the_end() {
        let mut decoder = decoder(&[b"\xff", b"\xe6\xad", b"x", b"\xe6"]);
        assert_eq!(decoder.push(0), "\u{fffd}");
        assert_eq!(decoder.push(1), "");
        assert_eq!(decoder.push(2), "\u{fffd}x");
        assert_eq!(decoder.push(3), "");
        assert_eq!(decoder.push(99), "");
        assert_eq!(decoder.finish(), "\u{fffd}");
        assert_eq!(decoder.finish(), "");
    }
}
