//! `minfer bench`: throughput, measured and printed as llama-bench does.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::args::{EngineArgs, KvArg, ModelArg};
use super::error::CliError;
use super::output::Output;
use super::setup::App;
use super::watch::Watch;
use crate::engine::{BenchTest, Context, Engine};
use crate::graph::KvFormat;

/// Measure prompt processing and generation speed, as llama-bench does
///
/// One warm-up run per test is not counted. Lists such as `-p 128,512` measure every value.
#[derive(Debug, Args)]
#[command(after_help = "Example
  minfer bench smollm2:135m -p 512 -n 128 -r 5 -o md")]
pub(super) struct BenchArgs {
    #[command(flatten)]
    model: ModelArg,
    /// Prompt tokens computed at once; 0 leaves the test out
    #[arg(
        short = 'p',
        long,
        allow_negative_numbers = true,
        value_name = "N",
        value_delimiter = ',',
        default_value = "512"
    )]
    n_prompt: Vec<usize>,
    /// Tokens generated one by one; 0 leaves the test out
    #[arg(
        short = 'n',
        long,
        allow_negative_numbers = true,
        value_name = "N",
        value_delimiter = ',',
        default_value = "128"
    )]
    n_gen: Vec<usize>,
    /// Tokens that are in the context before the measurement starts
    #[arg(
        short = 'd',
        long,
        allow_negative_numbers = true,
        value_name = "N",
        value_delimiter = ',',
        default_value = "0"
    )]
    n_depth: Vec<usize>,
    /// Measurements per test
    #[arg(short, long, allow_negative_numbers = true, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Output format
    #[arg(short, long, value_enum, default_value = "md")]
    output: Format,
    /// How keys and values are stored
    #[arg(long, visible_alias = "cache-type", value_enum, default_value = "f16")]
    kv: KvArg,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Md,
    Json,
    Csv,
}

/// What one test measured.
struct Row {
    test: BenchTest,
    samples: Vec<Duration>,
}

/// What all rows have in common.
struct Machine {
    file: String,
    model: String,
    size_bytes: u64,
    n_params: u64,
    n_threads: usize,
    isa: &'static str,
    /// How keys and values are stored.
    kv: String,
}

pub(super) fn run(args: &BenchArgs, app: &App) -> Result<(), CliError> {
    let options = app.engine_options(&args.engine, None)?;
    let tests = tests(args);
    let path = app.model_path(&args.model)?;
    let engine = app.load(&path, &options)?;
    let n_ctx = tests.iter().map(BenchTest::n_ctx).max().unwrap_or(0).max(1);
    let context_options = app.context_options(Some(n_ctx), args.kv);
    let mut context = engine.context(&context_options)?;
    let watch = Watch::install(&app.config, &mut context)?;
    let machine = Machine::of(&engine, &path, context_options.kv_format);
    let mut output = Output::new();
    if args.output == Format::Md {
        output.text(MD_HEAD)?;
    }
    if args.output == Format::Csv {
        output.line(CSV_HEAD)?;
    }
    let mut rows = Vec::new();
    for test in tests {
        let row = measure(&mut context, test, args.repetitions, app)?;
        match args.output {
            Format::Md => output.line(&row.md(&machine))?,
            Format::Csv => output.line(&row.csv(&machine))?,
            Format::Json => rows.push(row.json(&machine)),
        }
    }
    if args.output == Format::Json {
        output.json(&json!(rows))?;
    }
    watch.finish()
}

fn tests(args: &BenchArgs) -> Vec<BenchTest> {
    let mut tests = Vec::new();
    for &depth in &args.n_depth {
        let prefill = args.n_prompt.iter().map(|&n_prompt| BenchTest::Prefill { n_prompt, depth });
        let decode = args.n_gen.iter().map(|&n_gen| BenchTest::Decode { n_gen, depth });
        tests.extend(prefill.chain(decode).filter(|test| test.n_tokens() > 0));
    }
    tests
}

fn measure(context: &mut Context, test: BenchTest, n: u32, app: &App) -> Result<Row, CliError> {
    let once = |context: &mut Context| match app.interrupt.flag().load(Ordering::Relaxed) {
        true => Err(CliError::Interrupted),
        false => Ok(context.bench(test)?),
    };
    once(context)?;
    let samples = (0..n).map(|_| once(context)).collect::<Result<_, _>>()?;
    Ok(Row { test, samples })
}

impl Machine {
    fn of(engine: &Engine, path: &Path, kv: KvFormat) -> Machine {
        let name = engine.gguf().metadata().str("general.name").ok().flatten();
        Machine {
            file: path.to_string_lossy().into_owned(),
            model: name.unwrap_or(engine.model().arch.name).to_string(),
            size_bytes: engine.gguf().file_bytes(),
            n_params: engine.gguf().n_params(),
            n_threads: engine.n_threads(),
            isa: engine.isa().name(),
            kv: kv.dtype().name().to_lowercase(),
        }
    }
}

const MD_HEAD: &str = "\
| model | size | params | backend | threads | test | t/s |
| --- | ---: | ---: | --- | ---: | ---: | ---: |
";
const CSV_HEAD: &str = "model_filename,model_type,model_size,model_n_params,backends,cpu_isa,n_threads,type_k,type_v,\
n_prompt,n_gen,n_depth,avg_ns,stddev_ns,avg_ts,stddev_ts";

impl Row {
    /// Tokens per second of each sample.
    fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(|time| self.test.n_tokens() as f64 / time.as_secs_f64()).collect()
    }

    fn nanoseconds(&self) -> Vec<f64> {
        self.samples.iter().map(|time| time.as_nanos() as f64).collect()
    }

    /// Prompt tokens, generated tokens, depth.
    fn counts(&self) -> (usize, usize, usize) {
        match self.test {
            BenchTest::Prefill { n_prompt, depth } => (n_prompt, 0, depth),
            BenchTest::Decode { n_gen, depth } => (0, n_gen, depth),
        }
    }

    /// `pp512`, `tg128`, `pp512 @ d1024`.
    fn name(&self) -> String {
        let (name, depth) = match self.test {
            BenchTest::Prefill { n_prompt, depth } => (format!("pp{n_prompt}"), depth),
            BenchTest::Decode { n_gen, depth } => (format!("tg{n_gen}"), depth),
        };
        if depth == 0 { name } else { format!("{name} @ d{depth}") }
    }

    fn md(&self, machine: &Machine) -> String {
        let (mean, deviation) = mean_and_deviation(&self.rates());
        format!(
            "| {} | {:.2} MiB | {:.2} M | CPU ({}) | {} | {} | {mean:.2} ± {deviation:.2} |",
            machine.model.replace('|', "/"),
            machine.size_bytes as f64 / f64::from(1 << 20),
            machine.n_params as f64 / 1e6,
            machine.isa,
            machine.n_threads,
            self.name(),
        )
    }

    fn csv(&self, machine: &Machine) -> String {
        let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let (n_prompt, n_gen, n_depth) = self.counts();
        let (avg_ns, stddev_ns) = mean_and_deviation(&self.nanoseconds());
        let (avg_ts, stddev_ts) = mean_and_deviation(&self.rates());
        let Machine { file, model, size_bytes, n_params, n_threads, isa, kv } = machine;
        let (file, model) = (quote(file), quote(model));
        format!(
            "{file},{model},{size_bytes},{n_params},CPU,{isa},{n_threads},{kv},{kv},{n_prompt},{n_gen},{n_depth},\
             {avg_ns:.0},{stddev_ns:.0},{avg_ts:.4},{stddev_ts:.4}"
        )
    }

    fn json(&self, machine: &Machine) -> Value {
        let (n_prompt, n_gen, n_depth) = self.counts();
        let (avg_ns, stddev_ns) = mean_and_deviation(&self.nanoseconds());
        let (avg_ts, stddev_ts) = mean_and_deviation(&self.rates());
        json!({
            "test": self.name(),
            "model_filename": machine.file,
            "model_type": machine.model,
            "model_size": machine.size_bytes,
            "model_n_params": machine.n_params,
            "backends": "CPU",
            "cpu_isa": machine.isa,
            "n_threads": machine.n_threads,
            "type_k": machine.kv,
            "type_v": machine.kv,
            "n_prompt": n_prompt,
            "n_gen": n_gen,
            "n_depth": n_depth,
            "avg_ns": avg_ns,
            "stddev_ns": stddev_ns,
            "avg_ts": avg_ts,
            "stddev_ts": stddev_ts,
            "samples_ns": self.nanoseconds(),
            "samples_ts": self.rates(),
        })
    }
}

/// Mean and sample standard deviation; the latter is 0 for one value.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    (mean, deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_sample_deviation_are_the_usual_ones() {
        let (mean, deviation) = mean_and_deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(mean, 5.0);
        assert!((deviation - 2.138_089_935).abs() < 1e-6);
        assert_eq!(mean_and_deviation(&[3.0]), (3.0, 0.0));
    }

    #[test]
    fn tests_are_named_as_llama_bench_names_them() {
        let name = |test| Row { test, samples: Vec::new() }.name();
        assert_eq!(name(BenchTest::Prefill { n_prompt: 512, depth: 0 }), "pp512");
        assert_eq!(name(BenchTest::Decode { n_gen: 128, depth: 1024 }), "tg128 @ d1024");
    }
}
