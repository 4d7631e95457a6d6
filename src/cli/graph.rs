//! `minfer graph`: the compute graph of one step, as it would run.

use clap::{Args, ValueEnum};

use super::args::{ContextArgs, DumpArgs, EngineArgs, ModelArg};
use super::error::CliError;
use super::output::Output;
use super::setup::App;
use crate::engine::{Context, EngineOptions};
use crate::graph::GraphType;

/// Print the compute graph of one step
///
/// The graph is shown after all stages: built, assigned to backends, fused, allocated and split.
#[derive(Debug, Args)]
#[command(after_help = "Examples
  minfer graph smollm2:135m --decode --format census
  minfer graph smollm2:135m --prefill 512 --format dot | dot -Tsvg > graph.svg")]
pub(super) struct GraphArgs {
    #[command(flatten)]
    model: ModelArg,
    /// The step that computes N prompt tokens at once
    #[arg(long, allow_negative_numbers = true, value_name = "N", conflicts_with = "decode")]
    prefill: Option<usize>,
    /// The step that computes one new token (the default)
    #[arg(long)]
    decode: bool,
    /// Tokens of the step that need logits
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value = "1")]
    outputs: usize,
    /// Text with one line per node, Graphviz DOT, JSON, or a count of nodes by op and backend
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Dot,
    Json,
    Census,
}

pub(super) fn run(args: &GraphArgs, app: &App) -> Result<(), CliError> {
    let (n_tokens, gtype) = match args.prefill {
        Some(n_tokens) => (n_tokens, GraphType::Prefill),
        None => (1, GraphType::Decode),
    };
    if n_tokens == 0 {
        return Err(CliError::usage("--prefill", "at least 1 token", "0"));
    }
    if args.outputs > n_tokens {
        return Err(CliError::usage(
            "--outputs",
            format!("at most {n_tokens}, the tokens of the step"),
            args.outputs.to_string(),
        ));
    }
    let expected = app.expected_context(&args.context);
    let options = EngineOptions { prefetch: false, ..app.engine_options(&args.engine, expected)? };
    let path = app.model_path(&args.model)?;
    let engine = app.load(&path, &options)?;
    let n_ctx = args.context.n_ctx(n_tokens, None, engine.model().hparams.n_ctx_train);
    let mut context = engine.context(&app.context_options(n_ctx, args.context.kv))?;
    let params = context.params(n_tokens, args.outputs, gtype);
    let executable = context.executable(&params)?;
    let mut text = match args.format {
        Format::Text => executable.graph().to_text(),
        Format::Dot => executable.graph().to_dot(),
        Format::Json => executable.to_json(),
        Format::Census => executable.census().to_string(),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Output::new().text(&text)
}

/// Writes the pictures that `--dump-graph` and `--dump-graph-json` ask for: the graph of one decode step.
pub(super) fn dump(context: &mut Context, args: &DumpArgs) -> Result<(), CliError> {
    if args.dump_graph.is_none() && args.dump_graph_json.is_none() {
        return Ok(());
    }
    let params = context.params(1, 1, GraphType::Decode);
    let executable = context.executable(&params)?;
    if let Some(path) = &args.dump_graph {
        std::fs::write(path, executable.graph().to_dot()).map_err(CliError::file("write", path))?;
    }
    if let Some(path) = &args.dump_graph_json {
        std::fs::write(path, executable.to_json()).map_err(CliError::file("write", path))?;
    }
    Ok(())
}
