//! `minfer list`: what is in the store.

use clap::Args;
use serde_json::json;

use super::error::CliError;
use super::output::{Output, note, one_line, size};
use super::setup::App;
use crate::store::CATALOGUE;

/// List the models in the store
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Also list catalogue models that are not downloaded
    #[arg(short, long)]
    all: bool,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

struct Row {
    name: String,
    size_bytes: u64,
    place: String,
}

pub(super) fn run(args: &ListArgs, app: &App) -> Result<(), CliError> {
    let store = app.store()?;
    let mut rows: Vec<Row> = store
        .models()?
        .into_iter()
        .map(|model| Row {
            name: model.name,
            size_bytes: model.size_bytes,
            place: model.path.display().to_string(),
        })
        .collect();
    if args.all {
        let absent = CATALOGUE.iter().filter(|entry| !store.dir().join(entry.file).is_file());
        rows.extend(absent.map(|entry| Row {
            name: entry.name.to_string(),
            size_bytes: entry.size_bytes,
            place: format!("{} (not downloaded)", entry.title),
        }));
    }
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| json!({"name": row.name, "size": row.size_bytes, "path": row.place}))
            .collect();
        return Output::new().json(&json!(rows));
    }
    if rows.is_empty() {
        note(&format!("no models in {}; `minfer list --all` shows what there is", store.dir().display()));
    }
    let width = rows.iter().map(|row| one_line(&row.name).chars().count()).max().unwrap_or(0);
    let mut output = Output::new();
    rows.iter().try_for_each(|row| {
        let (name, place) = (one_line(&row.name), one_line(&row.place));
        output.line(&format!("{name:<width$}  {:>10}  {place}", size(row.size_bytes)))
    })
}
