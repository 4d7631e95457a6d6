//! `minfer verify`: a backend against another one, node by node.

use clap::Args;

use super::args::{EngineArgs, KvArg, ModelArg};
use super::error::CliError;
use super::output::Output;
use super::setup::App;
use crate::engine::verify::{LogitsReport, OpReport, VerifyOptions, VerifyReport, verify};
use crate::engine::{Engine, EngineOptions, GpuLayers};
use crate::graph::BackendId;
use crate::text::Specials;

/// The text that is run unless the user has another: longer than a page of keys and values.
const TEXT: &str = "The quick brown fox jumps over the lazy dog, and the dog, being lazy, does not mind. \
Early next morning 27 foxes came by; each of them had heard of it. \"Does it not mind at all?\" they asked.";

/// Check a backend against another one, node by node
///
/// The reference runs a prompt and some tokens after it; the backend repeats every node on the same sources.
/// Then the model runs on the backend as a whole, with and without fused nodes. The exit code is 1 if
/// anything is out of tolerance.
#[derive(Debug, Args)]
#[command(after_help = "Example
  minfer verify smollm2:135m --backend vulkan -n 8")]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    model: ModelArg,
    /// The backend to compare with
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    against: String,
    /// The text to run
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, default_value = TEXT, hide_default_value = true)]
    prompt: String,
    /// Tokens to generate after it
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, default_value = "4")]
    n_predict: usize,
    /// How keys and values are stored
    #[arg(long, value_enum, default_value = "f16")]
    kv: KvArg,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn run(args: &VerifyArgs, app: &App) -> Result<(), CliError> {
    let options = app.context_options(None, args.kv);
    let kv_format = options.kv_format;
    let tested = EngineOptions { prefetch: false, ..app.engine_options(&args.engine, options)? };
    if !tested.device.is_named {
        return Err(CliError::usage("--backend", "the backend to check", "none"));
    }
    let reference = reference_options(args, app, &tested)?;
    let path = app.model_path(&args.model)?;
    let asked = tested.device.fence;
    let (tested, reference) = (app.load(&path, &tested)?, app.load(&path, &reference)?);
    if asked != BackendId::CPU.bit() && tested.placement().device.is_none() {
        return Err(CliError::usage("--backend", "a device that takes at least one layer", "none"));
    }
    let prompt = tested.tokenizer().encode_sequence(&args.prompt, Specials::Plain)?;
    let options =
        VerifyOptions { prompt: &prompt, n_decode: args.n_predict, kv_format, cancel: app.interrupt.flag() };
    let report = verify(&tested, &reference, &options)?;
    let mut text = head(&tested, &reference, &options);
    text += &table(&report);
    Output::new().text(&text)?;
    match report.failure() {
        Some(what) => Err(CliError::OutOfTolerance { what }),
        None => Ok(()),
    }
}

/// The same settings with the backend of `--against`.
fn reference_options(
    args: &VerifyArgs,
    app: &App,
    tested: &EngineOptions,
) -> Result<EngineOptions, CliError> {
    let mut options = tested.clone();
    options.device.fence = app.registry().fence(Some(&args.against))?;
    options.device.gpu_layers = GpuLayers::Auto;
    options.device.fault_after = None;
    Ok(options)
}

fn head(tested: &Engine, reference: &Engine, options: &VerifyOptions<'_>) -> String {
    let name = |engine: &Engine| match engine.placement().device {
        Some((_, info)) => format!("{} ({})", engine.placement(), info.name),
        None => format!("{} ({})", engine.placement(), engine.isa().name()),
    };
    format!(
        "{} against {}: a prompt of {} tokens, then {} tokens one by one\n",
        name(tested),
        name(reference),
        options.prompt.len(),
        options.n_decode
    )
}

/// The report for people.
fn table(report: &VerifyReport) -> String {
    let mut text = format!(
        "{:<14} {:<16} {:>7} {:>10} {:>10} {:>10}\n",
        "op", "variant", "nodes", "absolute", "relative", "tolerance"
    );
    for op in &report.ops {
        let OpReport { class, n, difference } = op;
        text += &format!(
            "{:<14} {:<16} {n:>7} {:>10.1e} {:>10.1e} {:>10.1e}  {}\n",
            format!("{:?}", class.op),
            class.variant,
            difference.absolute,
            difference.relative,
            class.tolerance,
            verdict(op.passed()),
        );
    }
    for (skipped, n) in &report.skipped {
        text += &format!(
            "{:<14} {n:>24} not compared, on the CPU in a run: {}\n",
            format!("{:?}", skipped.op),
            skipped.reason
        );
    }
    let (fusion, logits) = (&report.fusion, &report.logits);
    text += &format!(
        "fusion         {} fused nodes when decoding; logits of {} steps equal to the bit without them  {}\n",
        fusion.n_nodes,
        fusion.n_steps,
        verdict(fusion.first_difference.is_none()),
    );
    let LogitsReport { n_steps, n_same_token, difference, tolerance } = logits;
    text += &format!(
        "{:<39} {:>10.1e} {:>10.1e} {tolerance:>10.1e}  {}\n",
        format!("logits         {n_steps} steps, {n_same_token} with the same token"),
        difference.absolute,
        difference.relative,
        verdict(logits.passed()),
    );
    text + "Differences are the largest ones. Relative: of a row (one token's values), \
            to its largest absolute reference value.\n"
}

fn verdict(passed: bool) -> &'static str {
    if passed { "ok" } else { "FAIL" }
}
