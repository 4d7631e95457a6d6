//! `minfer pull`: brings models into the store.

use std::ffi::OsString;

use clap::Args;

use super::error::CliError;
use super::output::{Output, note};
use super::setup::App;
use crate::store::ModelRef;

/// Download models; prints the path of each
#[derive(Debug, Args)]
#[command(after_help = "Examples
  minfer pull smollm2:135m
  minfer pull hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:q4_k_m
An interrupted download goes on where it ended when the command is run again.")]
pub(super) struct PullArgs {
    /// What to download; see `minfer --help` for the forms
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<OsString>,
    /// Only check that the models are in the store; send no request
    #[arg(long)]
    offline: bool,
}

pub(super) fn run(args: &PullArgs, app: &App) -> Result<(), CliError> {
    let references: Vec<ModelRef> =
        args.models.iter().map(|text| ModelRef::parse(text)).collect::<Result<_, _>>()?;
    for reference in &references {
        let pulled = app.pull(reference, args.offline)?;
        if !pulled.downloaded {
            note(&format!("{reference} is here already"));
        }
        Output::new().line(&pulled.path.display().to_string())?;
    }
    Ok(())
}
