//! What source code may say where.

use super::{File, Finding};
use crate::source::line_of;

/// A piece of code that is allowed in some places only.
struct Rule {
    /// Any of these.
    code: &'static [&'static str],
    /// Checked below these folders…
    within: &'static [&'static str],
    /// …except in these files and folders.
    allowed: &'static [&'static str],
    why: &'static str,
}

/// Rules on code that is not a test.
const RULES: &[Rule] = &[
    Rule {
        code: &["env::var", "env::{var"],
        within: &["src/"],
        allowed: &["src/config.rs"],
        why: "only src/config.rs reads the environment",
    },
    Rule {
        code: &["#[cfg(", "#![cfg(", "cfg!(", "cfg_attr("],
        within: &["src/models/", "src/graph/"],
        allowed: &[],
        why: "what depends on the build belongs to the list of backends",
    },
    Rule {
        code: &["print!(", "println!(", "process::exit", "dbg!("],
        within: &["src/"],
        allowed: &["src/cli/", "src/main.rs"],
        why: "only the command line prints and exits",
    },
    Rule {
        code: &[".unwrap()", "panic!("],
        within: &["src/"],
        allowed: &[],
        why: "return an error, or expect() with the reason why it cannot fail",
    },
];

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    for rule in RULES.iter().filter(|rule| file.is_in(rule.within) && !file.is_in(rule.allowed)) {
        for code in rule.code {
            for at in starts(&file.shipped, code) {
                findings.push(file.finding(line_of(&file.shipped, at), format!("`{code}`: {}", rule.why)));
            }
        }
    }
    for at in starts(&file.code, "#[ignore]") {
        findings
            .push(file.finding(line_of(&file.code, at), "an ignored test says why: #[ignore = \"reason\"]"));
    }
    let needs_header = file.is_in(&["src/"]) && file.path.ends_with(".rs") && !file.shipped.is_empty();
    if needs_header && !file.text.starts_with("//!") {
        findings.push(file.finding(1, "a module file starts with `//!` and what it is for"));
    }
}

/// Where `pattern` occurs; `print!(` is also found at the end of `eprint!(`, but not `panic!(` in `core_panic!(`.
fn starts(code: &str, pattern: &str) -> Vec<usize> {
    let word_before = |at: usize| code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let own_name = pattern == "panic!(" || pattern.starts_with("env") || pattern.starts_with("cfg");
    code.match_indices(pattern).map(|(at, _)| at).filter(|&at| !own_name || !word_before(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn code_is_found_only_where_it_is_not_allowed() {
        let read = "//! m.\nlet a = std::env::var(x);";
        assert_eq!(findings_in(check, "src/kv/mod.rs", read), [2]);
        assert_eq!(findings_in(check, "src/config.rs", read), [0; 0]);
        assert_eq!(findings_in(check, "tests/kv.rs", read), [0; 0]);

        let print = "//! m.\n\neprintln!();\nprint!();";
        assert_eq!(findings_in(check, "src/kv/mod.rs", print), [4, 3]);
        assert_eq!(findings_in(check, "src/cli/run.rs", print), [0; 0]);

        let configured =
            "//! m.\n#[cfg(unix)]\nfn f() {}\n#[cfg(test)]\nmod tests { fn g() { cfg!(unix); x.unwrap(); } }";
        assert_eq!(findings_in(check, "src/models/qwen2.rs", configured), [2]);
        assert_eq!(findings_in(check, "src/threads.rs", configured), [0; 0]);
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = "//! m.\n/// `x.unwrap()` panics.\nlet s = \"panic!(\"; let r = r#\"println!(\"\"#; let c = '\"';\nx.unwrap();";
        assert_eq!(findings_in(check, "src/kv/mod.rs", text), [4]);
    }

    #[test]
    fn headers_and_reasons_are_asked_for() {
        assert_eq!(findings_in(check, "src/kv/mod.rs", "use x;"), [1]);
        assert_eq!(findings_in(check, "src/kv/tests.rs", "use x;"), [0; 0]);
        let ignored = ["#[ignore]", "fn a() {}", "#[ignore = \"slow\"]", "fn b() {}"].join("\n");
        assert_eq!(findings_in(check, "tests/kv.rs", &ignored), [1]);
    }
}
