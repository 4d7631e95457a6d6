//! Rust source reduced to what counts as code, so that a plain text search does not stumble over a comment, a string
//! or a test. Everything that is left out becomes spaces: line numbers stay as they are.
//!
//! Shared by `cargo xtask tidy` and `tests/layers.rs`.

/// `text` with comments and the contents of string and character literals blanked. Quotes stay.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (keep, end) = next_token(text, at);
        blank(&mut out, at + keep, end.saturating_sub(keep));
        at = end;
    }
    into_text(out)
}

/// `code` (from [`code_only`]) with every item under `#[cfg(test)]` or `#[cfg(all(test, …))]` blanked.
pub(crate) fn without_tests(code: &str) -> String {
    let mut out = code.as_bytes().to_vec();
    let mut from = 0;
    while let Some(start) = find_test_attribute(code, from) {
        let end = item_end(code.as_bytes(), start);
        blank(&mut out, start, end);
        from = end;
    }
    into_text(out)
}

/// True for files that hold only tests: `tests.rs`, `…_tests.rs`, and everything in a folder `tests`.
pub(crate) fn is_test_file(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or_default();
    file == "tests.rs" || file.ends_with("_tests.rs") || parts.any(|folder| folder == "tests")
}

/// Line number, counted from 1, of the byte `offset` of `text`.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// What starts at `at`: how many bytes at both ends to keep, and where it ends. Code keeps all of its bytes.
fn next_token(text: &str, at: usize) -> (usize, usize) {
    let rest = &text[at..];
    if rest.starts_with("//") {
        return (0, at + rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (0, at + block_comment_len(rest.as_bytes()));
    }
    if rest.starts_with('"') {
        return (1, at + string_len(rest.as_bytes()));
    }
    if rest.starts_with('\'')
        && let Some(len) = char_literal_len(rest)
    {
        return (1, at + len);
    }
    let starts_word = !text[..at].ends_with(is_word);
    if starts_word && let Some((hashes, len)) = raw_string_len(rest) {
        return (hashes + 1, at + len);
    }
    let len = rest.chars().next().map_or(1, char::len_utf8);
    (len, at + len)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Block comments nest.
fn block_comment_len(bytes: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    bytes.len().min(at + 1)
}

/// `'a'` and `'\n'` are literals, `'a` without a closing quote is a lifetime.
fn char_literal_len(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        return chars.find(|&(_, c)| c == '\'').map(|(at, _)| at + 1);
    }
    chars.next().filter(|&(_, c)| c == '\'').map(|(at, _)| at + 1)
}

/// Number of hashes and whole length of a raw string such as `r#"…"#` or `br"…"`.
fn raw_string_len(rest: &str) -> Option<(usize, usize)> {
    let body = ["r", "br", "cr"].iter().find_map(|prefix| {
        rest.strip_prefix(prefix).filter(|body| body.starts_with('#') || body.starts_with('"'))
    })?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let open = rest.len() - body.len() + hashes + 1;
    if !body[hashes..].starts_with('"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let end = rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len());
    Some((hashes, end))
}

fn find_test_attribute(code: &str, from: usize) -> Option<usize> {
    ["#[cfg(test)]", "#[cfg(all(test"]
        .iter()
        .filter_map(|attribute| code[from..].find(attribute))
        .min()
        .map(|at| from + at)
}

/// End of the item whose attribute starts at `start`: after its `;` or its closing brace.
fn item_end(code: &[u8], start: usize) -> usize {
    let mut nesting = 0usize;
    for (at, byte) in code.iter().enumerate().skip(start) {
        match byte {
            b'(' | b'[' | b'{' => nesting += 1,
            b')' | b']' | b'}' => {
                nesting = nesting.saturating_sub(1);
                if nesting == 0 && *byte == b'}' {
                    return at + 1;
                }
            }
            b';' if nesting == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn blank(bytes: &mut [u8], start: usize, end: usize) {
    if start < end {
        bytes[start..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("only whole characters are blanked")
}
