//! The `minfer` program: parse, run, map the outcome to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    minfer::cli::main()
}
