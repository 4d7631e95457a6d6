//! `minfer logits`: what the model expects next.

use clap::Args;
use serde_json::{Value, json};

use super::args::{ContextArgs, EngineArgs, ModelArg, TextArg};
use super::error::CliError;
use super::output::{Output, text_from_stdin};
use super::setup::App;
use super::watch::Watch;
use crate::engine::{Engine, log_sum_exp, top_log_probs};
use crate::text::Specials;

/// Print the log-probabilities of the next token
///
/// The input is token ids, or a text that is tokenised with control tokens and the model's own begin of
/// sequence.
#[derive(Debug, Args)]
#[command(after_help = "Examples
  minfer logits smollm2:135m --ids 1,2,3 --top 64 --json
  minfer logits smollm2:135m -p 'The capital of France is' --top 5")]
pub(super) struct LogitsArgs {
    #[command(flatten)]
    model: ModelArg,
    /// Token ids, comma separated
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "IDS",
        value_delimiter = ',',
        conflicts_with = "prompt"
    )]
    ids: Vec<u32>,
    #[command(flatten)]
    text: TextArg,
    /// How many tokens to print per position
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value = "10")]
    top: usize,
    /// Print every position instead of the last one
    #[arg(long)]
    all_positions: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

struct Position {
    position: usize,
    log_sum_exp: f64,
    top: Vec<(u32, f64)>,
}

pub(super) fn run(args: &LogitsArgs, app: &App) -> Result<(), CliError> {
    let options = app.engine_options(&args.engine, app.expected_context(&args.context))?;
    let path = app.model_path(&args.model)?;
    let engine = app.load(&path, &options)?;
    let ids = input_ids(args, &engine)?;
    let n_ctx = args.context.n_ctx(ids.len(), Some(0), engine.model().hparams.n_ctx_train);
    let mut context = engine.context(&app.context_options(n_ctx, args.context.kv))?;
    let watch = Watch::install(&app.config, &mut context)?;
    let first = if args.all_positions { 0 } else { ids.len().saturating_sub(1) };
    let mut positions = Vec::new();
    context.each_row(&ids, first, |position, logits| {
        let top = top_log_probs(logits, args.top);
        positions.push(Position { position, log_sum_exp: log_sum_exp(logits), top });
    })?;
    watch.finish(&context)?;
    match args.json {
        true => Output::new().json(&document(&ids, &positions)),
        false => Output::new().text(&table(&engine, &positions)),
    }
}

fn input_ids(args: &LogitsArgs, engine: &Engine) -> Result<Vec<u32>, CliError> {
    if !args.ids.is_empty() {
        return Ok(args.ids.clone());
    }
    let text = match &args.text.prompt {
        Some(text) => text.clone(),
        None => text_from_stdin()?,
    };
    let ids = engine.tokenizer().encode_sequence(&text, Specials::Parse)?;
    match ids.is_empty() {
        true => Err(CliError::usage("--ids", "at least one token", "none")),
        false => Ok(ids),
    }
}

fn document(ids: &[u32], positions: &[Position]) -> Value {
    let positions: Vec<Value> = positions
        .iter()
        .map(|p| json!({"position": p.position, "logsumexp": p.log_sum_exp, "top": p.top}))
        .collect();
    json!({"ids": ids, "positions": positions})
}

fn table(engine: &Engine, positions: &[Position]) -> String {
    let mut lines = String::new();
    for p in positions {
        lines += &format!("position {}\n", p.position);
        for (id, log_prob) in &p.top {
            let piece = String::from_utf8_lossy(engine.tokenizer().token_bytes(*id));
            lines += &format!("{log_prob:>10.4} {:>6.2}% {id:>7}  {piece:?}\n", log_prob.exp() * 100.0);
        }
    }
    lines
}
