//! Where the store keeps each reference.
//!
//! Layout: `NAME.gguf` for catalogue models; `hf/OWNER/REPO/FILE`, `ollama/OWNER/NAME/TAG.gguf`,
//! `pypi/PACKAGE==VERSION/FILE` and `url/HOST/PATH` for the rest. Characters that some file system refuses are written
//! as `%XX`, so that a path gives its reference back.

use std::path::{Path, PathBuf};

use super::catalogue::CatalogueEntry;
use super::reference::{HubPick, ModelRef};

/// Where the store keeps `reference`, if that follows from the reference alone.
pub(super) fn relative_path(reference: &ModelRef) -> Option<PathBuf> {
    let text = match reference {
        ModelRef::Catalogue(entry) => entry.file.to_string(),
        ModelRef::Hub { repo, pick: HubPick::File(file) } => format!("hf/{repo}/{file}"),
        ModelRef::Ollama { name, tag } => format!("ollama/{name}/{tag}.gguf"),
        ModelRef::Pypi { package, version: Some(version), file } => {
            format!("pypi/{package}=={version}/{}", gguf_name(file))
        }
        ModelRef::Url(url) => format!("url/{}", gguf_name(url.split_once("://")?.1)),
        _ => return None,
    };
    Some(encode_path(&text))
}

/// Files in the store end in `.gguf`, whatever the source calls them.
fn gguf_name(path: &str) -> String {
    if path.to_ascii_lowercase().ends_with(".gguf") { path.to_string() } else { format!("{path}#.gguf") }
}

/// The reference that [`relative_path`] maps to `relative`.
pub(super) fn reference_of(relative: &str) -> String {
    let text = decode(relative);
    let text = text.strip_suffix("#.gguf").unwrap_or(&text);
    match text.split_once('/') {
        Some(("hf", rest)) => format!("hf:{rest}"),
        Some(("pypi", rest)) => format!("pypi:{rest}"),
        Some(("ollama", rest)) => {
            let rest = rest.strip_prefix("library/").unwrap_or(rest);
            let rest = rest.strip_suffix(".gguf").unwrap_or(rest);
            match rest.rsplit_once('/') {
                Some((name, tag)) => format!("ollama:{name}:{tag}"),
                None => rest.to_string(),
            }
        }
        Some(("url", rest)) => {
            let local = ["localhost", "127.0.0.1", "[::1]"].iter().any(|host| rest.starts_with(host));
            format!("{}://{rest}", if local { "http" } else { "https" })
        }
        _ => match CatalogueEntry::of_file(text) {
            Some(entry) => entry.name.to_string(),
            None => text.strip_suffix(".gguf").unwrap_or(text).to_string(),
        },
    }
}

pub(super) fn encode_path(path: &str) -> PathBuf {
    path.split('/').map(encode).collect()
}

pub(super) fn encode(part: &str) -> String {
    part.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'+' | b'=' | b'@' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escape = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, escape.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                bytes.push(value);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a `/`-separated path stays below the folder that it is appended to.
pub(super) fn stays_below(path: &str) -> bool {
    !path
        .split('/')
        .any(|part| matches!(part, "" | "." | "..") || part.contains('\\') || part.contains(char::is_control))
}

/// The last part of a path, for messages.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where bytes in progress are written.
pub(super) fn part_path(path: &Path) -> PathBuf {
    with_suffix(path, ".part")
}

/// What is known about the bytes in progress.
pub(super) fn meta_path(path: &Path) -> PathBuf {
    with_suffix(path, ".part.json")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// Number of insertions, deletions and replacements between two texts.
pub(super) fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
