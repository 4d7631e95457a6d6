//! Every check in order, each with a heading and its time.

use std::path::Path;
use std::time::Instant;

use crate::error::Error;
use crate::process::{cargo, run as run_command};
use crate::test_runs::{self, Tally};
use crate::{fuzz, models, tidy};

/// Whether models may be downloaded.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Network {
    /// The two test models are fetched unless they are there.
    Allowed,
    /// Tests that need a model are left out.
    Offline,
}

/// Runs all steps and stops at the first that fails. The last line says how many tests passed and failed.
pub(crate) fn run(root: &Path, network: Network) -> Result<(), Error> {
    let start = Instant::now();
    let mut tally = Tally::default();
    let outcome = steps(root, network, &mut tally);
    if network == Network::Offline {
        println!("\n!! --offline: the tests on real models were NOT run; this run proves nothing about them");
    }
    println!("\nall steps together: {:.0} s", start.elapsed().as_secs_f64());
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    println!("{} passed, {} failed", tally.passed, tally.failed);
    outcome
}

fn steps(root: &Path, network: Network, tally: &mut Tally) -> Result<(), Error> {
    step("format", || run_command(&mut cargo(root, "fmt --all --check")))?;
    step("clippy", || run_command(&mut cargo(root, "clippy --workspace --all-targets -- -D warnings")))?;
    step("layers", || run_command(&mut cargo(root, "test --package minfer --test layers")))?;
    step("tidy", || tidy::run(root))?;
    step("tests, best instruction set", || test_runs::run(root, None, tally))?;
    step("tests, scalar", || test_runs::run(root, Some("scalar"), tally))?;
    if network == Network::Allowed {
        step("tests on real models", || test_models(root, tally))?;
    }
    step("docs", || {
        run_command(cargo(root, "doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("fuzz", || fuzz::run(root, fuzz::DEFAULT_SECONDS, &[]))
}

/// Fetches the two models and runs the tests that need them.
pub(crate) fn test_models(root: &Path, tally: &mut Tally) -> Result<(), Error> {
    let models = models::fetch(root)?;
    test_runs::run_on_models(root, &models, tally)
}

fn step(name: &'static str, run: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    println!("\n=== {name}");
    let start = Instant::now();
    let outcome = run();
    let seconds = start.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => {
            println!("--- {name}: {seconds:.1} s");
            Ok(())
        }
        Err(source) => Err(Error::Step { step: name, seconds, source: Box::new(source) }),
    }
}
