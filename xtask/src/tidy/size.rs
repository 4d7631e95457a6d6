//! How long files may be.

use super::{File, Finding};

/// A source file beyond this many lines needs an exception with a reason.
const MAX_SOURCE_LINES: usize = 500;

/// Source files that may be longer, each with the reason. Flat lists of like things qualify.
const LONG_FILES: &[(&str, &str)] = &[];

/// Other files with a limit of their own.
const LIMITS: &[(&str, usize)] = &[("ARCHITECTURE.md", 300), ("src/main.rs", 60)];

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    let n_lines = file.text.lines().count();
    let own_limit = LIMITS.iter().find(|(path, _)| *path == file.path).map(|(_, limit)| *limit);
    if let Some(limit) = own_limit.filter(|limit| n_lines >= *limit) {
        findings.push(file.finding(0, format!("{n_lines} lines; must stay under {limit}")));
    }
    if is_long(file) && !LONG_FILES.iter().any(|(path, _)| *path == file.path) {
        findings.push(file.finding(0, format!("{n_lines} lines; split it, or give a reason in LONG_FILES")));
    }
}

/// An exception must still be needed.
pub(super) fn check_exceptions(files: &[File], findings: &mut Vec<Finding>) {
    for (path, _) in LONG_FILES {
        if !files.iter().any(|file| file.path == *path && is_long(file)) {
            let message = "is in LONG_FILES but is not long".to_string();
            findings.push(Finding { path: path.to_string(), line: 0, message });
        }
    }
}

fn is_long(file: &File) -> bool {
    file.is_in(&["src/"]) && file.path.ends_with(".rs") && file.text.lines().count() > MAX_SOURCE_LINES
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn long_source_files_are_found() {
        assert_eq!(findings_in(check, "src/kv/mod.rs", &"//\n".repeat(500)), [0; 0]);
        assert_eq!(findings_in(check, "src/kv/mod.rs", &"//\n".repeat(501)), [0]);
        assert_eq!(findings_in(check, "src/main.rs", &"//\n".repeat(60)), [0]);
        assert_eq!(findings_in(check, "ARCHITECTURE.md", &"word\n".repeat(299)), [0; 0]);
    }
}
