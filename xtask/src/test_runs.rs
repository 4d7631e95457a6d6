//! Running the tests and counting them, with `cargo nextest` where it is installed and `cargo test`
//! elsewhere.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::process::{cargo, is_installed, run_and_listen, words};
use crate::source::code_only;
use crate::tidy::tracked_files;

/// The reason that marks a test on a real model.
const NEEDS_MODELS: &str = "#[ignore = \"needs MINFER_TEST_MODELS\"]";

/// Tests over all runs. A test is skipped when no run ran it.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

/// All tests of the workspace, documentation tests included, on the instruction set `isa` or on the best
/// there is. Vulkan is checked by its validation layer, where that is installed.
pub(crate) fn run(root: &Path, isa: Option<&str>, tally: &mut Tally) -> Result<(), Error> {
    let with_isa = |mut command: Command| {
        command.env_remove("MINFER_ISA").envs(isa.map(|isa| ("MINFER_ISA", isa)));
        with_vulkan(root, command)
    };
    // The second run skips the same tests as the first.
    let mut skipped = 0;
    if is_installed("cargo-nextest") {
        let nextest = "nextest run --workspace --no-fail-fast --status-level slow --final-status-level fail";
        skipped += count(with_isa(cargo(root, nextest)), tally)?;
        skipped += count(with_isa(cargo(root, "test --workspace --doc --no-fail-fast")), tally)?;
    } else {
        skipped += count(with_isa(cargo(root, "test --workspace --no-fail-fast")), tally)?;
    }
    tally.skipped = tally.skipped.max(skipped);
    Ok(())
}

/// The tests that are ignored because they need models; `models` is the folder that holds them.
pub(crate) fn run_on_models(root: &Path, models: &Path, tally: &mut Tally) -> Result<(), Error> {
    let names = model_tests(root)?;
    if names.is_empty() {
        println!("there are none");
        return Ok(());
    }
    let mut command = if is_installed("cargo-nextest") {
        let filter: Vec<String> = names.iter().map(|name| format!("test(/(^|::){name}$/)")).collect();
        let mut command =
            cargo(root, "nextest run --workspace --no-fail-fast --run-ignored only --test-threads 1");
        command.args(["-E", &filter.join(" | ")]);
        command
    } else {
        let mut command = cargo(root, "test --workspace --no-fail-fast -- --ignored --test-threads 1");
        command.args(&names);
        command
    };
    command.env("MINFER_TEST_MODELS", models).env_remove("MINFER_ISA");
    let command = with_vulkan(root, command);
    let ran_before = tally.passed + tally.failed;
    count(command, tally)?;
    tally.skipped = tally.skipped.saturating_sub(tally.passed + tally.failed - ran_before);
    Ok(())
}

/// With the validation layer on, and without the remarks of drivers that look for a desktop.
fn with_vulkan(root: &Path, mut command: Command) -> Command {
    command.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
    command.env("VK_LAYER_SETTINGS_PATH", root.join("xtask"));
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        command.env("XDG_RUNTIME_DIR", std::env::temp_dir());
    }
    command
}

/// Runs a test command, adds what passed and failed, and returns how many tests it left out.
fn count(mut command: Command, tally: &mut Tally) -> Result<usize, Error> {
    let (text, status) = run_and_listen(&mut command)?;
    let found = tally_of(&text);
    tally.passed += found.as_ref().map_or(0, |found| found.passed);
    tally.failed += found.as_ref().map_or(0, |found| found.failed);
    if !status.success() {
        return Err(Error::Status { command: words(&command), status });
    }
    found.map(|found| found.skipped).ok_or_else(|| Error::NoTests { command: words(&command) })
}

/// Adds up the summary lines of either runner: `test result: ok. 5 passed; 0 failed; 2 ignored; …` per
/// binary, or `Summary [ 1.2s] 7 tests run: 5 passed, 2 failed, 2 skipped` once.
fn tally_of(output: &str) -> Option<Tally> {
    let mut total: Option<Tally> = None;
    for line in output.lines().map(str::trim_start) {
        if line.starts_with("test result: ") || line.starts_with("Summary [") {
            let total = total.get_or_insert_default();
            total.passed += number_before(line, "passed");
            total.failed += number_before(line, "failed") + number_before(line, "timed out");
            total.skipped += number_before(line, "ignored") + number_before(line, "skipped");
        }
    }
    total
}

/// The number in front of `word`, or 0.
fn number_before(line: &str, word: &str) -> usize {
    let before = line.find(word).map_or("", |at| line[..at].trim_end());
    let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    before[before.len() - digits..].parse().unwrap_or(0)
}

/// Names of all test functions that are ignored because they need models.
fn model_tests(root: &Path) -> Result<Vec<String>, Error> {
    let files = tracked_files(root)?;
    Ok(files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .flat_map(|file| model_tests_in(&file.text))
        .collect())
}

fn model_tests_in(text: &str) -> Vec<String> {
    let code = code_only(text);
    let ignored = text.match_indices(NEEDS_MODELS).filter(|(at, _)| code[*at..].starts_with("#[ignore"));
    ignored.filter_map(|(at, _)| function_after(&code[at..])).collect()
}

fn function_after(code: &str) -> Option<String> {
    let name = code.split_once("fn ")?.1;
    Some(name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_runners_summaries_are_counted() {
        let nextest = "     Summary [   0.008s] 7 tests run: 5 passed (1 slow), 2 failed, 3 skipped\n";
        assert_eq!(tally_of(nextest), Some(Tally { passed: 5, failed: 2, skipped: 3 }));
        let libtest = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out\n\
                       test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(tally_of(libtest), Some(Tally { passed: 7, failed: 2, skipped: 1 }));
        assert_eq!(tally_of("error: could not compile"), None);
    }

    #[test]
    fn tests_on_models_are_found_by_their_reason() {
        let marked = format!("{NEEDS_MODELS}\n");
        let text = format!(
            "#[test]\n{marked}fn answers() {{}}\n#[ignore = \"slow\"]\nfn other() {{}}\n// {marked}fn no() {{}}"
        );
        assert_eq!(model_tests_in(&text), ["answers"]);
    }
}
