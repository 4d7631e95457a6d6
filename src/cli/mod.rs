//! The command line: one file per subcommand.

use std::process::ExitCode;

/// Parses the arguments, runs the subcommand and maps its outcome to an exit code.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
