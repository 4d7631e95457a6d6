//! Chores of this repository: `cargo xtask ci` is what continuous integration runs.

mod ci;
mod error;
mod fuzz;
mod models;
mod peers;
mod process;
mod setup;
mod source;
mod test_runs;
mod tidy;

use std::process::ExitCode;

use error::Error;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci [--offline]                      every check, in order; stops at the first failure
                                      --offline leaves out the tests that need the two downloaded models
  test-models                         only the tests on the two downloaded models
  tidy                                the rules on size, words, environment, printing, links
  fuzz [--seconds N] [TARGET]         coverage-guided fuzzing, 10 seconds per target unless told otherwise
  bench-peers [FLAGS]                 minfer and llama.cpp in turns on the same files; writes docs/performance.md. Builds
                                      llama.cpp first, unless --llama-bench PATH names one; --model FILE (repeatable),
                                      --pairs N, --threads N, --work NAME (repeatable), --output FILE
  setup                               installs what a fresh machine lacks to run `ci`";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Error> {
    let root = process::repository_root();
    match arguments {
        ["ci"] => ci::run(&root, ci::Network::Allowed),
        ["ci", "--offline"] => ci::run(&root, ci::Network::Offline),
        ["test-models"] => ci::test_models(&root, &mut test_runs::Tally::default()),
        ["tidy"] => tidy::run(&root),
        ["fuzz", "--seconds", seconds, targets @ ..] => fuzz::run(&root, parse_seconds(seconds)?, targets),
        ["fuzz", targets @ ..] => fuzz::run(&root, fuzz::DEFAULT_SECONDS, targets),
        ["bench-peers", flags @ ..] => peers::run(&root, flags),
        ["setup"] => setup::run_setup(&root),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(Error::Usage(USAGE)),
    }
}

fn parse_seconds(text: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| Error::Usage(USAGE))
}
