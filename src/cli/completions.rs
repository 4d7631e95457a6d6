//! `minfer completions`: a script that lets the shell complete arguments.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::args::Cli;
use super::error::CliError;
use super::output::Output;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example
  minfer completions bash > ~/.local/share/bash-completion/completions/minfer")]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "minfer", &mut script);
    Output::new().text(&String::from_utf8_lossy(&script))
}
