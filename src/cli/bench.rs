//! `minfer bench`: throughput, measured and printed as llama-bench does.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::args::{EngineArgs, KvArg, ModelArg};
use super::error::CliError;
use super::output::Output;
use super::roofline::{self, Roofline};
use super::setup::App;
use super::watch::Watch;
use crate::engine::{BenchRun, BenchTest, Context, ContextOptions, Cost, Engine, Limits};
use crate::graph::{KvFormat, WorkCounts};

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
    /// Sequences that generate together
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_delimiter = ',', default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    parallel: Vec<u16>,
    /// Measurements per test
    #[arg(short, long, allow_negative_numbers = true, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Output format
    #[arg(short, long, value_enum, default_value = "md")]
    output: Format,
    /// Measure how fast this machine reads memory and multiplies bytes, and show each result's share of that
    #[arg(long)]
    roofline: bool,
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
    /// What the device did in each measurement; the same each time.
    work: WorkCounts,
    /// What a measurement cannot do without.
    cost: Cost,
}

/// What all rows have in common.
struct Machine {
    file: String,
    model: String,
    size_bytes: u64,
    n_params: u64,
    n_threads: usize,
    isa: &'static str,
    /// Who computes what, such as `Vulkan 8/24 layers`.
    backend: String,
    /// Name of the device; empty without one.
    device: String,
    /// How keys and values are stored.
    kv: String,
    /// What the machine can do at most, if it was measured.
    limits: Option<Limits>,
}

pub(super) fn run(args: &BenchArgs, app: &App) -> Result<(), CliError> {
    let tests = tests(args);
    let n_ctx = tests.iter().map(BenchTest::n_ctx).max().unwrap_or(0).max(1);
    let n_seq_max = tests.iter().map(BenchTest::n_seq).max().unwrap_or(1);
    let context_options = ContextOptions { n_seq_max, ..app.context_options(Some(n_ctx), args.kv) };
    let options = app.engine_options(&args.engine, context_options.clone())?;
    let path = app.model_path(&args.model)?;
    let engine = app.load(&path, &options)?;
    let mut context = engine.context(&context_options)?;
    let watch = Watch::install(&app.config, &mut context)?;
    let limits = if args.roofline { Some(roofline::measure(&engine)?) } else { None };
    let machine = Machine { limits, ..Machine::of(&engine, &path, context_options.kv_format) };
    let mut output = Output::new();
    match args.output {
        Format::Md => output.text(&machine.md_head())?,
        Format::Csv => output.line(&machine.csv_head())?,
        Format::Json => {}
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
    match (args.output, &machine.limits) {
        (Format::Json, _) => output.json(&json!(rows))?,
        (Format::Md, Some(limits)) => output.line(&format!("\n{}", roofline::describe(limits, &engine)))?,
        _ => {}
    }
    watch.finish(&context)
}

fn tests(args: &BenchArgs) -> Vec<BenchTest> {
    let mut tests = Vec::new();
    for &depth in &args.n_depth {
        let prefill = args.n_prompt.iter().map(|&n_prompt| BenchTest::Prefill { n_prompt, depth });
        let decode = args.parallel.iter().flat_map(|&n_seq| {
            args.n_gen.iter().map(move |&n_gen| match usize::from(n_seq) {
                1 => BenchTest::Decode { n_gen, depth },
                n_seq => BenchTest::Together { n_seq, n_gen, depth },
            })
        });
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
    let runs = (0..n).map(|_| once(context)).collect::<Result<Vec<BenchRun>, _>>()?;
    let work = runs.last().map_or(WorkCounts::default(), |run| run.work);
    let cost = context.bench_cost(test)?;
    Ok(Row { test, samples: runs.iter().map(|run| run.time).collect(), work, cost })
}

impl Machine {
    fn of(engine: &Engine, path: &Path, kv: KvFormat) -> Machine {
        let placement = engine.placement();
        let name = engine.gguf().metadata().str("general.name").ok().flatten();
        Machine {
            file: path.to_string_lossy().into_owned(),
            model: name.unwrap_or(engine.model().arch.name).to_string(),
            size_bytes: engine.gguf().file_bytes(),
            n_params: engine.gguf().n_params(),
            n_threads: engine.n_threads(),
            isa: engine.isa().name(),
            backend: placement.to_string(),
            device: placement.device.map_or(String::new(), |(_, info)| info.name.clone()),
            kv: kv.dtype().name().to_lowercase(),
            limits: None,
        }
    }

    fn has_device(&self) -> bool {
        !self.device.is_empty()
    }

    /// Heads of the columns; those of the device's work only if there is one.
    fn md_head(&self) -> String {
        let (mut names, mut rules) = (MD_HEAD.to_string(), MD_RULE.to_string());
        for (name, _) in work_per_token(&WorkCounts::default(), 1).iter().filter(|_| self.has_device()) {
            names += &format!(" {}/token |", name.replace('_', " "));
            rules += " ---: |";
        }
        if self.limits.is_some() {
            names += roofline::MD_HEAD;
            rules += roofline::MD_RULE;
        }
        format!("{names}\n{rules}\n")
    }

    fn csv_head(&self) -> String {
        format!("{CSV_HEAD}{}", self.limits.map_or("", |_| roofline::CSV_HEAD))
    }
}

const MD_HEAD: &str = "| model | size | params | backend | threads | test | t/s |";
const MD_RULE: &str = "| --- | ---: | ---: | --- | ---: | ---: | ---: |";
const CSV_HEAD: &str = "model_filename,model_type,model_size,model_n_params,backends,cpu_isa,n_threads,type_k,type_v,\
n_prompt,n_gen,n_depth,n_seq,avg_ns,stddev_ns,avg_ts,stddev_ts,device,dispatches,submissions,weights_read_bytes,\
uploaded_bytes,downloaded_bytes";

/// Names and values of a device's counts, as shares of `n_tokens` tokens.
fn work_per_token(work: &WorkCounts, n_tokens: usize) -> [(&'static str, f64); 5] {
    let WorkCounts { dispatches, submissions, weights_read_bytes, uploaded_bytes, downloaded_bytes } = *work;
    [
        ("dispatches", dispatches),
        ("submissions", submissions),
        ("weights_read_bytes", weights_read_bytes),
        ("uploaded_bytes", uploaded_bytes),
        ("downloaded_bytes", downloaded_bytes),
    ]
    .map(|(name, count)| (name, count as f64 / n_tokens.max(1) as f64))
}

/// A count per token: whole if it is, else with two decimals.
fn per_token(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

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
            BenchTest::Decode { n_gen, depth } | BenchTest::Together { n_gen, depth, .. } => {
                (0, n_gen, depth)
            }
        }
    }

    /// `pp512`, `tg128`, `pp512 @ d1024`.
    fn name(&self) -> String {
        let (name, depth) = match self.test {
            BenchTest::Prefill { n_prompt, depth } => (format!("pp{n_prompt}"), depth),
            BenchTest::Decode { n_gen, depth } => (format!("tg{n_gen}"), depth),
            BenchTest::Together { n_seq, n_gen, depth } => (format!("tg{n_gen} x{n_seq}"), depth),
        };
        if depth == 0 { name } else { format!("{name} @ d{depth}") }
    }

    /// What the device did per token.
    fn work(&self) -> [(&'static str, f64); 5] {
        work_per_token(&self.work, self.test.n_tokens())
    }

    /// The result beside the machine's limits, if those were measured.
    fn roofline(&self, machine: &Machine) -> Option<Roofline> {
        let (mean, _) = mean_and_deviation(&self.rates());
        machine.limits.map(|limits| Roofline::new(limits, self.cost, self.test.n_tokens(), mean))
    }

    fn md(&self, machine: &Machine) -> String {
        let (mean, deviation) = mean_and_deviation(&self.rates());
        let (maker, work) = match machine.has_device() {
            true => (&*machine.device, self.work().map(|(_, n)| format!(" {} |", per_token(n))).concat()),
            false => (machine.isa, String::new()),
        };
        let limits = self.roofline(machine).map_or(String::new(), |roofline| roofline.md());
        format!(
            "| {} | {:.2} MiB | {:.2} M | {} ({}) | {} | {} | {mean:.2} ± {deviation:.2} |{work}{limits}",
            machine.model.replace('|', "/"),
            machine.size_bytes as f64 / f64::from(1 << 20),
            machine.n_params as f64 / 1e6,
            machine.backend,
            maker.replace('|', "/"),
            machine.n_threads,
            self.name(),
        )
    }

    fn csv(&self, machine: &Machine) -> String {
        let n_seq = self.test.n_seq();
        let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let (n_prompt, n_gen, n_depth) = self.counts();
        let (avg_ns, stddev_ns) = mean_and_deviation(&self.nanoseconds());
        let (avg_ts, stddev_ts) = mean_and_deviation(&self.rates());
        let Machine { file, model, size_bytes, n_params, n_threads, isa, backend, device, kv, .. } = machine;
        let (file, model, device) = (quote(file), quote(model), quote(device));
        let work = self.work().map(|(_, n)| format!(",{}", per_token(n))).concat();
        let limits = self.roofline(machine).map_or(String::new(), |roofline| roofline.csv());
        format!(
            "{file},{model},{size_bytes},{n_params},{backend},{isa},{n_threads},{kv},{kv},{n_prompt},{n_gen},{n_depth},             {n_seq},{avg_ns:.0},{stddev_ns:.0},{avg_ts:.4},{stddev_ts:.4},{device}{work}{limits}"
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
            "backends": machine.backend,
            "device": machine.device,
            "cpu_isa": machine.isa,
            "n_threads": machine.n_threads,
            "type_k": machine.kv,
            "type_v": machine.kv,
            "n_prompt": n_prompt,
            "n_gen": n_gen,
            "n_depth": n_depth,
            "n_seq": self.test.n_seq(),
            "avg_ns": avg_ns,
            "stddev_ns": stddev_ns,
            "avg_ts": avg_ts,
            "stddev_ts": stddev_ts,
            "samples_ns": self.nanoseconds(),
            "samples_ts": self.rates(),
            "roofline": self.roofline(machine).map(|roofline| roofline.json()),
            "work_per_token": self.work().map(|(name, n)| (name.to_string(), json!(n))).into_iter().collect::<Value>(),
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
    fn the_work_of_a_device_is_shown_per_token_in_every_format() {
        let work = WorkCounts {
            dispatches: 400,
            submissions: 4,
            weights_read_bytes: 4000,
            uploaded_bytes: 80,
            downloaded_bytes: 10,
        };
        let test = BenchTest::Decode { n_gen: 4, depth: 0 };
        let row = Row { test, samples: vec![Duration::from_secs(1)], work, cost: Cost::default() };
        let machine = |device: &str| Machine {
            file: "m.gguf".to_string(),
            model: "m".to_string(),
            size_bytes: 1 << 20,
            n_params: 1_000_000,
            n_threads: 2,
            isa: "scalar",
            backend: "Vulkan 8/24 layers".to_string(),
            device: device.to_string(),
            kv: "f16".to_string(),
            limits: None,
        };
        let line = row.md(&machine("a card"));
        assert!(line.contains("| Vulkan 8/24 layers (a card) |"), "{line}");
        assert!(line.ends_with("| 4.00 ± 0.00 | 100 | 1 | 1000 | 20 | 2.50 |"), "{line}");
        let n_columns = |text: &str| text.matches('|').count();
        let head = machine("a card").md_head();
        assert!(head.lines().all(|rule| n_columns(rule) == n_columns(&line)), "{head}{line}");
        let line = row.csv(&machine("a card"));
        assert!(line.ends_with(",\"a card\",100,1,1000,20,2.50"), "{line}");
        assert_eq!(line.split(',').count(), CSV_HEAD.split(',').count());
        assert_eq!(row.json(&machine("a card"))["work_per_token"]["downloaded_bytes"], 2.5);
        let (head, line) = (machine("").md_head(), row.md(&machine("")));
        assert!(head.lines().all(|rule| n_columns(rule) == n_columns(&line)), "{head}{line}");
    }

    #[test]
    fn tests_are_named_as_llama_bench_names_them() {
        let name = |test| {
            Row { test, samples: Vec::new(), work: WorkCounts::default(), cost: Cost::default() }.name()
        };
        assert_eq!(name(BenchTest::Prefill { n_prompt: 512, depth: 0 }), "pp512");
        assert_eq!(name(BenchTest::Decode { n_gen: 128, depth: 1024 }), "tg128 @ d1024");
        assert_eq!(name(BenchTest::Together { n_seq: 8, n_gen: 32, depth: 0 }), "tg32 x8");
    }
}
