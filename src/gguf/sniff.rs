//! What a file that is not GGUF looks like, so that the message can say it.

use std::fmt;

/// A guess at what was given instead of a GGUF file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum LooksLike {
    Directory,
    NotAFile,
    Empty,
    HtmlPage,
    LfsPointer,
    Safetensors,
    OldGgml,
    ZipArchive,
    Gzip,
    Json,
    Zeros,
    /// None of these; the first bytes are shown.
    Unknown([u8; 4]),
}

impl LooksLike {
    /// Guesses from the beginning of a file that does not start with GGUF's magic number.
    pub(crate) fn guess(bytes: &[u8]) -> LooksLike {
        let head = &bytes[..bytes.len().min(512)];
        let text = head.trim_ascii_start();
        let starts_with = |word: &str| {
            text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        match head {
            [] => LooksLike::Empty,
            _ if starts_with("<!doctype") || starts_with("<html") => LooksLike::HtmlPage,
            _ if starts_with("version https://git-lfs") => LooksLike::LfsPointer,
            _ if is_safetensors(bytes) => LooksLike::Safetensors,
            // The single-file formats before GGUF store their magic as a little-endian number.
            [b'l' | b'f' | b't' | b'a', b'm' | b'j' | b'l', b'g', b'g', ..] => LooksLike::OldGgml,
            _ if starts_with("GGML") || starts_with("GGJT") => LooksLike::OldGgml,
            [b'P', b'K', 3, 4, ..] => LooksLike::ZipArchive,
            [0x1f, 0x8b, ..] => LooksLike::Gzip,
            _ if starts_with("{") => LooksLike::Json,
            _ if head.iter().all(|&byte| byte == 0) => LooksLike::Zeros,
            _ => LooksLike::Unknown(std::array::from_fn(|i| head.get(i).copied().unwrap_or(0))),
        }
    }

    /// What to do about it.
    pub(super) fn advice(self) -> Option<&'static str> {
        match self {
            LooksLike::Directory => Some("name the .gguf file inside the directory"),
            LooksLike::HtmlPage => {
                Some("the download got a web page instead of the file; fetch the file's direct address")
            }
            LooksLike::LfsPointer => {
                Some("the repository was cloned without its large files; run `git lfs pull`")
            }
            LooksLike::Safetensors | LooksLike::OldGgml | LooksLike::ZipArchive => {
                Some("convert the model to GGUF, or download a GGUF version of it")
            }
            LooksLike::Gzip => Some("unpack the file first"),
            LooksLike::Empty | LooksLike::Zeros => Some("the download did not finish; fetch the file again"),
            LooksLike::NotAFile | LooksLike::Json | LooksLike::Unknown(_) => None,
        }
    }
}

/// A safetensors file starts with the length of its JSON header.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    rest.first() == Some(&b'{') && u64::from_le_bytes(*length) <= rest.len() as u64
}

impl fmt::Display for LooksLike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LooksLike::Directory => "it is a directory",
            LooksLike::NotAFile => "it is a device, pipe or socket",
            LooksLike::Empty => "it is empty",
            LooksLike::HtmlPage => "it looks like an HTML page",
            LooksLike::LfsPointer => "it looks like a git-lfs pointer",
            LooksLike::Safetensors => "it looks like a safetensors file",
            LooksLike::OldGgml => "it looks like a GGML file, the format before GGUF",
            LooksLike::ZipArchive => "it looks like a zip archive or a PyTorch checkpoint",
            LooksLike::Gzip => "it looks like a gzip archive",
            LooksLike::Json => "it looks like JSON",
            LooksLike::Zeros => "it starts with zeros only",
            LooksLike::Unknown(magic) => {
                return write!(f, "expected it to start with \"GGUF\", got \"{}\"", magic.escape_ascii());
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_mistakes_are_recognised() {
        let safetensors = [&16u64.to_le_bytes()[..], b"{\"a\":{}}        "].concat();
        let cases: [(&[u8], LooksLike); 12] = [
            (b"", LooksLike::Empty),
            (b"\n <!DOCTYPE html><p>404", LooksLike::HtmlPage),
            (b"<HTML>", LooksLike::HtmlPage),
            (b"version https://git-lfs.github.com/spec/v1\n", LooksLike::LfsPointer),
            (&safetensors, LooksLike::Safetensors),
            (b"tjgg\x03\0\0\0", LooksLike::OldGgml),
            (b"lmgg\x03\0\0\0", LooksLike::OldGgml),
            (b"PK\x03\x04..", LooksLike::ZipArchive),
            (b"\x1f\x8b\x08", LooksLike::Gzip),
            (b"{\"error\":1}", LooksLike::Json),
            (&[0; 600], LooksLike::Zeros),
            (b"x", LooksLike::Unknown([b'x', 0, 0, 0])),
        ];
        for (bytes, expected) in cases {
            assert_eq!(LooksLike::guess(bytes), expected, "{}", bytes.escape_ascii());
        }
    }
}
