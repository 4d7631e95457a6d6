//! Rules that the compiler does not check: size, words, who may read the environment or print, links.

mod code;
mod links;
mod size;
mod words;

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::process::output;
use crate::source::{code_only, is_test_file, without_tests};

/// A text file of the repository.
pub(crate) struct File {
    /// Path from the repository root, with `/`.
    pub(crate) path: String,
    /// As it stands.
    pub(crate) text: String,
    /// For Rust files: without comments and literals.
    code: String,
    /// `code` without tests: what ends up in the library or program.
    shipped: String,
}

/// Something to mend.
#[derive(Debug, PartialEq)]
struct Finding {
    path: String,
    /// Counted from 1; 0 for the file as a whole.
    line: usize,
    message: String,
}

/// Checks every tracked file and prints what it finds.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let files = tracked_files(root)?;
    let mut findings = Vec::new();
    for file in &files {
        size::check(file, &mut findings);
        words::check(file, &mut findings);
        code::check(file, &mut findings);
        links::check(root, file, &mut findings);
    }
    size::check_exceptions(&files, &mut findings);
    for finding in &findings {
        eprintln!("{}:{}: {}", finding.path, finding.line, finding.message);
    }
    println!("{} files, {} findings", files.len(), findings.len());
    if findings.is_empty() { Ok(()) } else { Err(Error::Untidy(findings.len())) }
}

/// All text files that git tracks or would track, without reference data, seeds and the lock file.
pub(crate) fn tracked_files(root: &Path) -> Result<Vec<File>, Error> {
    let mut list = Command::new("git");
    list.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let paths = output(&mut list)?;
    let is_ours = |path: &&str| {
        !path.is_empty()
            && *path != "Cargo.lock"
            && !path.starts_with("tests/reference/")
            && !path.starts_with("fuzz/corpus/")
    };
    let read = |path: &str| Some(File::new(path, std::fs::read_to_string(root.join(path)).ok()?));
    Ok(paths.split('\0').filter(is_ours).filter_map(read).collect())
}

impl File {
    fn new(path: &str, text: String) -> File {
        let code = if path.ends_with(".rs") { code_only(&text) } else { String::new() };
        let shipped = if is_test_file(path) { String::new() } else { without_tests(&code) };
        File { path: path.to_string(), text, code, shipped }
    }

    fn is_in(&self, folders: &[&str]) -> bool {
        folders.iter().any(|folder| self.path.starts_with(folder))
    }

    fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

#[cfg(test)]
fn findings_in(check: impl Fn(&File, &mut Vec<Finding>), path: &str, text: &str) -> Vec<usize> {
    let mut findings = Vec::new();
    check(&File::new(path, text.to_string()), &mut findings);
    findings.into_iter().map(|finding| finding.line).collect()
}
