//! Links between documents lead somewhere.

use std::path::Path;

use super::{File, Finding};

pub(super) fn check(root: &Path, file: &File, findings: &mut Vec<Finding>) {
    if !file.path.ends_with(".md") {
        return;
    }
    let folder = root.join(&file.path).parent().map(Path::to_path_buf).unwrap_or_default();
    for (line, target) in links(&file.text) {
        let path = target.split('#').next().unwrap_or_default();
        let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
        if !path.is_empty() && !is_elsewhere && !folder.join(path).exists() {
            findings.push(file.finding(line, format!("the link to `{path}` leads nowhere")));
        }
    }
}

/// Line and target of every `[text](target)` outside fenced blocks and inline code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            // Odd pieces between backticks are code.
            let prose = line.split('`').step_by(2);
            let targets = prose.flat_map(|piece| piece.split("](").skip(1));
            found.extend(targets.filter_map(|rest| Some((at + 1, rest.split_once(')')?.0))));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;
    use crate::process::repository_root;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "[a](Cargo.toml) and [b](src/nowhere.rs#L1)\n[c](https://example.com/x) `[d](e)`\n```\n[f](g)\n```\n[h](#here)";
        let found =
            findings_in(|file, findings| check(&repository_root(), file, findings), "README.md", text);
        assert_eq!(found, [1]);
    }
}
