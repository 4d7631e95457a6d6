//! The command line: one file per subcommand.
//!
//! `args` is what the user types; each subcommand turns it into what it means, and `setup` does so for what
//! they share. Data goes to standard output, everything else to standard error.

mod args;
mod bench;
mod completions;
mod doctor;
mod error;
mod graph;
mod info;
mod interrupt;
mod list;
mod logits;
mod output;
mod perplexity;
mod progress;
mod prompt;
mod pull;
mod rm;
mod roofline;
mod run;
mod setup;
mod tokenize;
mod verify;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use error::CliError;
use interrupt::Interrupt;
use output::{note, one_line};
use setup::App;

use crate::config::Config;
use crate::error::Hint;

/// Parses the arguments, runs the subcommand and maps its outcome to an exit code.
pub fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => {
            // Help goes to standard output, errors to standard error; a closed pipe is fine for both.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        // Who pressed Ctrl-C knows.
        Err(error @ CliError::Interrupted) => ExitCode::from(error.exit_code()),
        Err(error) => {
            report(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(command: &Command) -> Result<(), CliError> {
    let app = App { config: Config::from_env()?, interrupt: Interrupt::listen() };
    match command {
        Command::Run(args) => run::run(args, &app),
        Command::Bench(args) => bench::run(args, &app),
        Command::Info(args) => info::run(args, &app),
        Command::Tokenize(args) => tokenize::run(args, &app),
        Command::Logits(args) => logits::run(args, &app),
        Command::Perplexity(args) => perplexity::run(args, &app),
        Command::Graph(args) => graph::run(args, &app),
        Command::Verify(args) => verify::run(args, &app),
        Command::Pull(args) => pull::run(args, &app),
        Command::List(args) => list::run(args, &app),
        Command::Rm(args) => rm::run(args, &app),
        Command::Doctor(args) => doctor::run(args, &app),
        Command::Completions(args) => completions::run(args),
    }
}

/// One line for the error, one for the hint.
fn report(error: &CliError) {
    note(&format!("error: {}", one_line(&error.to_string())));
    if let Some(hint) = error.hint() {
        note(&format!("hint: {}", one_line(&hint)));
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
