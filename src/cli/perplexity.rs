//! `minfer perplexity`: how well the model predicts a text.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::json;

use super::args::{EngineArgs, KvArg, ModelArg};
use super::error::CliError;
use super::output::{Output, note, stderr_is_terminal, text_from_stdin};
use super::setup::App;
use super::watch::Watch;
use crate::engine::Perplexity;
use crate::text::Specials;

/// Measure how well the model predicts a text
///
/// Scored as llama-perplexity does with -c 512: the text is cut into chunks of 512 tokens, and in each the
/// last 255 are predicted from all before them.
#[derive(Debug, Args)]
#[command(after_help = "Example
  minfer perplexity smollm2:135m -f book.txt")]
pub(super) struct PerplexityArgs {
    #[command(flatten)]
    model: ModelArg,
    /// The text; standard input when absent
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Score only so many chunks
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    chunks: Option<NonZeroUsize>,
    /// How keys and values are stored
    #[arg(long, visible_alias = "cache-type", value_enum, default_value = "f16")]
    kv: KvArg,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn run(args: &PerplexityArgs, app: &App) -> Result<(), CliError> {
    let context_options = app.context_options(Some(Perplexity::CHUNK), args.kv);
    let options = app.engine_options(&args.engine, context_options.clone())?;
    let text = match &args.file {
        Some(path) => std::fs::read_to_string(path).map_err(CliError::file("read", path))?,
        None => text_from_stdin()?,
    };
    let path = app.model_path(&args.model)?;
    let engine = app.load(&path, &options)?;
    let ids = engine.tokenizer().encode(&text, Specials::Plain)?;
    let mut context = engine.context(&context_options)?;
    let watch = Watch::install(&app.config, &mut context)?;
    let mut running = Vec::new();
    let cancel = app.interrupt.flag();
    let perplexity = context.perplexity(&ids, &mut |chunk: &Perplexity| {
        if stderr_is_terminal() {
            note(&format!("[{}] {:.4}", chunk.n_chunks, chunk.value));
        }
        running.push(chunk.value);
        !cancel.load(Ordering::Relaxed) && args.chunks.is_none_or(|limit| chunk.n_chunks < limit.get())
    })?;
    watch.finish(&context)?;
    if cancel.load(Ordering::Relaxed) {
        return Err(CliError::Interrupted);
    }
    let Perplexity { value, standard_error, n_chunks } = perplexity;
    if args.json {
        return Output::new().json(&json!({
            "ppl": value,
            "stderr": standard_error,
            "n_chunks": n_chunks,
            "n_tokens": ids.len(),
            "running": running,
        }));
    }
    let line = format!("perplexity {value:.4} +/- {standard_error:.4} over {n_chunks} chunks");
    Output::new().line(&line)
}
