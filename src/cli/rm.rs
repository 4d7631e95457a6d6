//! `minfer rm`: removes models from the store.

use std::ffi::OsString;

use clap::Args;

use super::error::CliError;
use super::output::{Output, size};
use super::setup::App;
use crate::store::ModelRef;

/// Remove models from the store
#[derive(Debug, Args)]
pub(super) struct RmArgs {
    /// What to remove, as `minfer list` names it
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<OsString>,
}

pub(super) fn run(args: &RmArgs, app: &App) -> Result<(), CliError> {
    let store = app.store()?;
    for text in &args.models {
        let reference = ModelRef::parse(text)?;
        let removed = store.remove(&reference)?;
        for path in &removed.paths {
            Output::new().line(&format!("removed {}", path.display()))?;
        }
        Output::new().line(&format!("{} freed", size(removed.size_bytes)))?;
    }
    Ok(())
}
