//! Words that promise later work, or that belong to one machine.

use super::{File, Finding};

/// What to look for, in two halves so that this file does not contain it.
struct Word {
    halves: [&'static str; 2],
    why: &'static str,
    /// In any case of letters.
    any_case: bool,
    /// Only where no letter or digit touches it.
    whole: bool,
}

const UNFINISHED: &str = "promises later work; finish it or leave it out";
const MACHINE: &str = "is a path of one machine";
const REGISTRY: &str = "names the host of a package registry; use the package manager's own configuration";

const WORDS: &[Word] = &[
    Word { halves: ["to", "do!"], why: UNFINISHED, any_case: false, whole: true },
    Word { halves: ["unimple", "mented!"], why: UNFINISHED, any_case: false, whole: true },
    Word { halves: ["TO", "DO"], why: UNFINISHED, any_case: false, whole: true },
    Word { halves: ["FIX", "ME"], why: UNFINISHED, any_case: false, whole: true },
    Word { halves: ["XX", "X"], why: UNFINISHED, any_case: false, whole: true },
    Word { halves: ["HA", "CK"], why: UNFINISHED, any_case: false, whole: true },
    Word { halves: ["for ", "now"], why: UNFINISHED, any_case: true, whole: true },
    Word { halves: ["place", "holder"], why: UNFINISHED, any_case: true, whole: false },
    Word { halves: ["/wo", "rk/"], why: MACHINE, any_case: false, whole: false },
    Word { halves: ["/tm", "p/"], why: MACHINE, any_case: false, whole: false },
    Word { halves: ["/ro", "ot/"], why: MACHINE, any_case: false, whole: false },
    Word { halves: ["py", "pi.org"], why: REGISTRY, any_case: true, whole: false },
    Word { halves: ["pythonhos", "ted.org"], why: REGISTRY, any_case: true, whole: false },
    Word { halves: ["cra", "tes.io"], why: REGISTRY, any_case: true, whole: false },
    Word { halves: ["npm", "js"], why: REGISTRY, any_case: true, whole: false },
    Word { halves: ["deb", "ian.org"], why: REGISTRY, any_case: true, whole: false },
];

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    for (at, line) in file.text.lines().enumerate() {
        for word in WORDS.iter().filter(|word| word.is_in(line)) {
            findings.push(file.finding(at + 1, format!("\"{}\" {}", word.halves.concat(), word.why)));
        }
    }
}

impl Word {
    fn is_in(&self, line: &str) -> bool {
        let line = if self.any_case { line.to_lowercase() } else { line.to_string() };
        let word = self.halves.concat();
        line.match_indices(&word).any(|(at, _)| !self.whole || stands_alone(&line, at, word.len()))
    }
}

fn stands_alone(line: &str, at: usize, len: usize) -> bool {
    let before = line[..at].chars().next_back();
    let after = line[at + len..].chars().next();
    !before.into_iter().chain(after).any(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn every_word_is_found_where_it_stands_alone() {
        for word in WORDS {
            let word = word.halves.concat();
            assert_eq!(
                findings_in(check, "README.md", &format!("fine\nsome {word} here")).first(),
                Some(&2),
                "{word}"
            );
        }
        assert_eq!(
            findings_in(check, "README.md", &format!("mktemp a{}X", WORDS[4].halves.concat())),
            [0; 0]
        );
        assert_eq!(findings_in(check, "README.md", &["for ", "nowhere"].concat()), [0; 0]);
    }
}
