//! `minfer doctor`: what minfer finds on this machine, and why it chooses what it chooses.

use clap::Args;

use super::error::CliError;
use super::output::{Output, size};
use super::setup::App;
use crate::config::VARIABLES;
use crate::engine::available_bytes;
use crate::graph::{Availability, BuiltBackend, DeviceInfo, DeviceKind, KnownBackend};
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
    text += &format!("computes on {}\n", chosen(app)?);
    text += "backends\n";
    backend_lines(app).iter().for_each(|line| text += &format!("  {line}\n"));
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

/// The backends that a run would use, most preferred first.
fn chosen(app: &App) -> Result<String, CliError> {
    let registry = app.registry();
    let named = app.config.backends.as_deref();
    let fence = registry.fence(named)?;
    let allowed = registry.backends().iter().filter(|backend| fence & backend.known.id.bit() != 0);
    let labels: Vec<&str> = allowed.map(|backend| backend.known.label).collect();
    let reason = if named.is_some() { " (MINFER_BACKENDS is set)" } else { "" };
    Ok(format!("{}{reason}", labels.join(", then ")))
}

fn backend_lines(app: &App) -> Vec<String> {
    let registry = app.registry();
    let mut lines = Vec::new();
    for known in KnownBackend::ALL {
        let built = registry.backends().iter().find(|backend| backend.known.id == known.id);
        let (state, has_device) = match built.map(|backend| registry.availability(backend)) {
            Some(Availability::Available) => ("available".to_string(), true),
            Some(Availability::OnlyNamed(reason)) => (format!("only if named: {reason}"), true),
            Some(Availability::Unavailable(reason)) => (format!("not available: {reason}"), false),
            None => (format!("not in this build: {}", known.absent), false),
        };
        lines.push(format!("{:<8} {state}", known.label));
        let found = built.filter(|_| has_device).map_or(Vec::new(), |backend| device_lines(backend, app));
        lines.extend(found.iter().map(|line| format!("  {line}")));
    }
    lines
}

/// What the device of a backend says about itself, or why it cannot be opened.
fn device_lines(backend: &BuiltBackend, app: &App) -> Vec<String> {
    match backend.open.map(|open| open()) {
        None => Vec::new(),
        Some(Ok(device)) => info_lines(device.info(), app.config.gpu_memory),
        Some(Err(error)) => vec![format!("cannot be opened: {error}")],
    }
}

fn info_lines(info: &DeviceInfo, gpu_memory: Option<u64>) -> Vec<String> {
    let kind = match info.kind {
        DeviceKind::Discrete => "a card of its own",
        DeviceKind::Integrated => "integrated",
        DeviceKind::Other => "of unknown kind",
        DeviceKind::Software => "software",
    };
    let reported = info.memory_bytes.map_or("unknown".to_string(), |bytes| size(bytes as u64));
    let memory = match gpu_memory {
        Some(mib) => format!(
            "{} (MINFER_GPU_MEMORY is set; the device reports {reported})",
            size(mib.saturating_mul(1 << 20))
        ),
        None => reported,
    };
    let mut lines = vec![
        format!("device   {} ({kind})", info.name),
        format!("driver   {}", info.driver),
        format!("memory   {memory}"),
    ];
    lines.extend(info.details.iter().map(|detail| format!("detail   {detail}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_described_line_by_line() {
        let info = DeviceInfo {
            name: "Card 1".to_string(),
            kind: DeviceKind::Discrete,
            driver: "driver 2".to_string(),
            memory_bytes: Some(3 << 30),
            max_region_bytes: None,
            details: vec!["subgroup 32".to_string()],
        };
        let expected = [
            "device   Card 1 (a card of its own)",
            "driver   driver 2",
            "memory   3.0 GiB",
            "detail   subgroup 32",
        ];
        assert_eq!(info_lines(&info, None), expected);
        let memory = "memory   512.0 MiB (MINFER_GPU_MEMORY is set; the device reports 3.0 GiB)";
        assert_eq!(info_lines(&info, Some(512))[2], memory);
    }
}
