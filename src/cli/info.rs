//! `minfer info`: what is in a model file.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value as Json, json};

use super::args::ModelArg;
use super::error::CliError;
use super::output::{Output, size};
use super::setup::App;
use crate::gguf::{Gguf, OpenOptions, TensorInfo};

/// Show what is in a model file: metadata, tensors, types, sizes
///
/// Works on every readable GGUF file, also on those that minfer cannot run.
#[derive(Debug, Args)]
pub(super) struct InfoArgs {
    #[command(flatten)]
    model: ModelArg,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// Print a JSON object with everything
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &InfoArgs, app: &App) -> Result<(), CliError> {
    let path = app.model_path(&args.model)?;
    let gguf = Gguf::open(&path, &OpenOptions { mmap: true })?;
    match args.json {
        true => Output::new().json(&document(&gguf)),
        false => Output::new().text(&page(&gguf, args.tensors)),
    }
}

/// Tensors and bytes by type. The flag says whether minfer can compute with the type.
fn by_type(gguf: &Gguf) -> BTreeMap<String, (usize, u64, bool)> {
    let mut types = BTreeMap::new();
    for info in gguf.tensor_infos() {
        let entry =
            types.entry(info.tensor_type.to_string()).or_insert((0, 0, info.tensor_type.dtype().is_some()));
        entry.0 += 1;
        entry.1 += info.n_bytes.unwrap_or(0) as u64;
    }
    types
}

fn page(gguf: &Gguf, tensors: bool) -> String {
    let mut text = String::new();
    for path in gguf.paths() {
        text += &format!("file        {}\n", path.display());
    }
    text += &format!("size        {}\n", size(gguf.file_bytes()));
    text += &format!("version     GGUF {}\n", gguf.version());
    text += &format!("tensors     {}\n", gguf.tensor_infos().len());
    text += &format!("parameters  {:.1} M\n\nmetadata\n", gguf.n_params() as f64 / 1e6);
    for (key, value) in gguf.metadata().iter() {
        text += &format!("  {} = {value}\n", key.escape_debug());
    }
    text += "\ntensor types\n";
    for (name, (n_tensors, n_bytes, supported)) in by_type(gguf) {
        let remark = if supported { "" } else { "  (minfer cannot compute with this type)" };
        text += &format!("  {name:<8} {n_tensors:>5} tensors {:>12}{remark}\n", size(n_bytes));
    }
    if tensors {
        text += "\ntensors\n";
        let width = gguf.tensor_infos().iter().map(|info| info.name.len()).max().unwrap_or(0);
        for info in gguf.tensor_infos() {
            let bytes = info.n_bytes.map_or("unknown size".to_string(), |bytes| size(bytes as u64));
            let (name, shape) = (info.name.escape_debug().to_string(), info.shape.to_string());
            text += &format!("  {name:<width$}  {:<7} {shape:<16} {bytes}\n", info.tensor_type.to_string());
        }
    }
    text
}

fn document(gguf: &Gguf) -> Json {
    let metadata: serde_json::Map<String, Json> =
        gguf.metadata().iter().map(|(key, value)| (key.to_string(), json!(value.to_string()))).collect();
    let tensor = |info: &TensorInfo| {
        json!({
            "name": &*info.name,
            "type": info.tensor_type.to_string(),
            "shape": info.shape.0,
            "bytes": info.n_bytes,
            "supported": info.tensor_type.dtype().is_some(),
        })
    };
    json!({
        "files": gguf.paths().iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "size": gguf.file_bytes(),
        "version": gguf.version(),
        "parameters": gguf.n_params(),
        "metadata": metadata,
        "tensors": gguf.tensor_infos().iter().map(tensor).collect::<Vec<_>>(),
    })
}
