//! `minfer doctor`: what minfer finds on this machine, and why it chooses what it chooses.

use clap::Args;

use super::error::CliError;
use super::output::{Output, size};
use super::setup::App;
use crate::config::VARIABLES;
use crate::engine::available_bytes;
use crate::graph::{Availability, KnownBackend, Registry};
use crate::threads::default_threads;
use crate::vec_ops::Isa;

/// Show what minfer finds on this machine
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// List the environment variables instead
    #[arg(long)]
    vars: bool,
}

pub(super) fn run(args: &DoctorArgs, app: &App) -> Result<(), CliError> {
    let text = if args.vars { variables() } else { report(app)? };
    Output::new().text(&text)
}

fn variables() -> String {
    VARIABLES.iter().fold(String::new(), |text, variable| {
        let (name, rule) = (variable.name, variable.rule.name());
        text + &format!("{name} ({rule}; default: {})\n    {}\n", variable.default, variable.meaning)
    })
}

fn report(app: &App) -> Result<String, CliError> {
    let mut text = format!("minfer      {}\n", env!("CARGO_PKG_VERSION"));
    text += &format!("system      {} {}\n", std::env::consts::OS, std::env::consts::ARCH);
    text += &format!("cpu         {}\n", cpu_features());
    text += &format!("kernels     {}\n", kernels(app)?);
    text += &format!("threads     {}\n", threads(app)?);
    let memory = available_bytes().map_or("unknown".to_string(), |bytes| size(bytes as u64));
    text += &format!("memory      {memory} available\n");
    text += &format!("models      {}\n", models(app)?);
    text += "backends\n";
    backend_lines(&app.registry()).iter().for_each(|line| text += &format!("  {line}\n"));
    Ok(text)
}

fn cpu_features() -> String {
    let features = detected_features();
    match features.is_empty() {
        true => "no vector extension that minfer knows".to_string(),
        false => features.join(" "),
    }
}

#[cfg(target_arch = "x86_64")]
fn detected_features() -> Vec<&'static str> {
    let found = [
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx-vnni", is_x86_feature_detected!("avxvnni")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ("avx512-vnni", is_x86_feature_detected!("avx512vnni")),
    ];
    found.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

#[cfg(target_arch = "aarch64")]
fn detected_features() -> Vec<&'static str> {
    use std::arch::is_aarch64_feature_detected;
    let found = [
        ("neon", is_aarch64_feature_detected!("neon")),
        ("dotprod", is_aarch64_feature_detected!("dotprod")),
        ("i8mm", is_aarch64_feature_detected!("i8mm")),
    ];
    found.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detected_features() -> Vec<&'static str> {
    Vec::new()
}

fn kernels(app: &App) -> Result<String, CliError> {
    let names: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    let (chosen, reason) = match app.isa()? {
        Some(isa) => (isa, "MINFER_ISA is set"),
        None => (Isa::best(), "the best that runs here"),
    };
    Ok(format!("{} ({reason}; there are {})", chosen.name(), names.join(", ")))
}

fn threads(app: &App) -> Result<String, CliError> {
    let n_logical = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(match app.n_threads(None)? {
        Some(n_threads) => format!("{n_threads} (MINFER_THREADS is set; {n_logical} can run at once)"),
        None => format!(
            "{} (from physical cores, affinity and quota; {n_logical} can run at once)",
            default_threads()
        ),
    })
}

fn models(app: &App) -> Result<String, CliError> {
    let store = app.store()?;
    let models = store.models()?;
    let bytes = models.iter().map(|model| model.size_bytes).sum();
    Ok(format!("{} ({} models, {})", store.dir().display(), models.len(), size(bytes)))
}

fn backend_lines(registry: &Registry) -> Vec<String> {
    let line = |known: &KnownBackend| {
        let built = registry.backends().iter().find(|backend| backend.known.id == known.id);
        let state = match built.map(|backend| registry.availability(backend)) {
            Some(Availability::Available) => "available".to_string(),
            Some(Availability::OnlyNamed(reason)) => format!("only if named: {reason}"),
            Some(Availability::Unavailable(reason)) => format!("not available: {reason}"),
            None => format!("not in this build: {}", known.absent),
        };
        format!("{:<8} {state}", known.label)
    };
    KnownBackend::ALL.iter().map(line).collect()
}
