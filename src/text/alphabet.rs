//! The alphabet of byte-level BPE: each byte is written as one printable character.
//!
//! Printable Latin-1 bytes stand for themselves; the other 68 are numbered upwards from U+0100 in byte order, so a
//! space is `Ġ` and a newline `Ċ`. Token texts and merges in a GGUF are written in this alphabet.

/// First character that stands for a byte which is not printable.
const FIRST_STAND_IN: u32 = 0x100;

/// Number of bytes that need a stand-in.
const N_STAND_INS: usize = 68;

const fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let mut stand_in = FIRST_STAND_IN;
    let mut byte = 0;
    while byte < 256 {
        if is_printable(byte as u8) {
            chars[byte] = byte as u8 as char;
        } else {
            chars[byte] = match char::from_u32(stand_in) {
                Some(c) => c,
                None => '\0',
            };
            stand_in += 1;
        }
        byte += 1;
    }
    chars
};

const STAND_INS: [u8; N_STAND_INS] = {
    let mut bytes = [0; N_STAND_INS];
    let mut n = 0;
    let mut byte = 0;
    while byte < 256 {
        if !is_printable(byte as u8) {
            bytes[n] = byte as u8;
            n += 1;
        }
        byte += 1;
    }
    bytes
};

/// The character that stands for `byte`.
pub(super) fn char_of(byte: u8) -> char {
    CHARS[byte as usize]
}

/// The byte that `c` stands for, or `None` for a character outside the alphabet.
pub(super) fn byte_of(c: char) -> Option<u8> {
    let code = c as u32;
    match u8::try_from(code) {
        Ok(byte) => is_printable(byte).then_some(byte),
        Err(_) => STAND_INS.get((code - FIRST_STAND_IN) as usize).copied(),
    }
}

/// Appends the bytes that `text` stands for; `false`, with `out` unchanged, when `text` leaves the alphabet.
pub(super) fn decode_into(text: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    if text.iter().all(|&b| matches!(b, 0x21..=0x7e)) {
        out.extend_from_slice(text);
        return true;
    }
    let Ok(text) = std::str::from_utf8(text) else { return false };
    for c in text.chars() {
        let Some(byte) = byte_of(c) else {
            out.truncate(start);
            return false;
        };
        out.push(byte);
    }
    true
}

/// Appends `bytes` written in the alphabet, as UTF-8.
pub(super) fn encode_into(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        let mut utf8 = [0; 4];
        out.extend_from_slice(char_of(byte).encode_utf8(&mut utf8).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255u8 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!((char_of(b' '), char_of(b'\n'), char_of(0xad)), ('Ġ', 'Ċ', 'Ń'));
        assert_eq!((byte_of(' '), byte_of('▁'), byte_of('\u{144}')), (None, None, None));
    }

    #[test]
    fn text_outside_the_alphabet_leaves_the_output_alone() {
        let mut out = b"x".to_vec();
        assert!(!decode_into("Ġ▁".as_bytes(), &mut out));
        assert!(!decode_into(b"\xff", &mut out));
        assert_eq!(out, b"x");
        assert!(decode_into("Ġa".as_bytes(), &mut out));
        assert_eq!(out, b"x a");
    }
}
