//! The two streams: data to standard output, everything else to standard error.

use std::io::{IsTerminal, Read, Write};

use super::error::CliError;

/// Standard output. A reader that goes away ends the program quietly instead of with a panic.
pub(super) struct Output {
    stdout: std::io::Stdout,
}

impl Output {
    pub(super) fn new() -> Output {
        Output { stdout: std::io::stdout() }
    }

    /// Writes text and shows it at once.
    pub(super) fn text(&mut self, text: &str) -> Result<(), CliError> {
        let mut lock = self.stdout.lock();
        let written = lock.write_all(text.as_bytes()).and_then(|()| lock.flush());
        written.map_err(|source| CliError::Stream { stream: "output", source })
    }

    /// Writes text and a newline.
    pub(super) fn line(&mut self, text: &str) -> Result<(), CliError> {
        self.text(&format!("{text}\n"))
    }

    /// Writes a JSON document and a newline.
    pub(super) fn json(&mut self, value: &serde_json::Value) -> Result<(), CliError> {
        self.line(&value.to_string())
    }
}

/// Writes a line to standard error. It is not the program's fault if nobody can read it.
pub(super) fn note(line: &str) {
    let shown: Vec<String> = line.split('\n').map(one_line).collect();
    let _ = writeln!(std::io::stderr().lock(), "{}", shown.join("\n"));
}

/// Tells the user, on one line, what does not stop the work.
pub(super) fn warn(text: &str) {
    note(&format!("warning: {}", one_line(text)));
}

/// Text of foreign origin on one line of a terminal: line breaks become spaces, other control characters are spelled out.
pub(super) fn one_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
        out
    })
}

/// True if standard error is a terminal.
pub(super) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// All of standard input, with a word to those who wait at a terminal.
pub(super) fn read_stdin(what: &str) -> Result<Vec<u8>, CliError> {
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        note(&format!("reading the {what} from the terminal; Ctrl-D ends it"));
    }
    let mut bytes = Vec::new();
    stdin.read_to_end(&mut bytes).map_err(|source| CliError::Stream { stream: "input", source })?;
    Ok(bytes)
}

/// All of standard input, which must be text: what is measured is what was given.
pub(super) fn text_from_stdin() -> Result<String, CliError> {
    String::from_utf8(read_stdin("text")?).map_err(|error| {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error());
        CliError::Stream { stream: "input", source }
    })
}

/// A size for people: `93.8 MiB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_reach_a_terminal() {
        assert_eq!(one_line("a\x1b[31m\nb\u{9b}é"), "a\\u{1b}[31m b\\u{9b}é");
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(98_362_432), "93.8 MiB");
    }
}
