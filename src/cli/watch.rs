//! What `MINFER_GRAPH_TRACE`, `MINFER_OP_PROFILE` and `MINFER_TRACE` show: an observer of the graph's
//! execution.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::error::CliError;
use super::output::note;
use crate::config::Config;
use crate::engine::{Context, OpTime};
use crate::graph::{BackendId, Executable, Node, NodeSources, NodeValue, Observer, OpKind};
use crate::threads::lock;

/// What was watched, to be printed at the end of the run.
#[derive(Clone, Default)]
pub(super) struct Watch {
    state: Option<Arc<Mutex<State>>>,
}

#[derive(Default)]
struct State {
    graph_trace: bool,
    n_graphs: usize,
    profile: Option<Profile>,
    trace: Option<Trace>,
}

/// Time on the host per op and backend: of the work itself on the CPU, of handing it over on a device.
type Profile = BTreeMap<(OpKind, Option<BackendId>), OpTime>;

/// A file of node times in the trace event format of browsers.
struct Trace {
    path: PathBuf,
    file: BufWriter<File>,
    start: Instant,
    /// The first failure to write; the run goes on without a trace.
    error: Option<std::io::Error>,
    n_events: u64,
    is_closed: bool,
}

impl Watch {
    /// Watches `context` as the environment asks for.
    pub(super) fn install(config: &Config, context: &mut Context) -> Result<Watch, CliError> {
        if !config.graph_trace && !config.op_profile && config.trace.is_none() {
            return Ok(Watch::default());
        }
        let trace = config.trace.as_ref().map(|path| Trace::create(path.clone())).transpose()?;
        let profile = config.op_profile.then(BTreeMap::new);
        let state = State { graph_trace: config.graph_trace, n_graphs: 0, profile, trace };
        let state = Arc::new(Mutex::new(state));
        let measured = config.op_profile && context.measure_device();
        let node_start = Instant::now();
        context.set_observer(Box::new(Watcher { state: Arc::clone(&state), node_start, measured }));
        Ok(Watch { state: Some(state) })
    }

    /// Prints the profile of `context`, which was watched, and completes the trace.
    pub(super) fn finish(self, context: &Context) -> Result<(), CliError> {
        let Some(state) = &self.state else { return Ok(()) };
        let mut state = lock(state);
        if state.graph_trace {
            note(&format!("graphs built: {}", state.n_graphs));
        }
        if let Some(profile) = &state.profile {
            profile_lines(profile, context.device_times()).iter().for_each(|line| note(line));
        }
        state.trace.take().map_or(Ok(()), Trace::finish)
    }
}

struct Watcher {
    state: Arc<Mutex<State>>,
    node_start: Instant,
    /// The device measures itself, so nobody waits for it after every node.
    measured: bool,
}

impl Observer for Watcher {
    fn graph_built(&mut self, executable: &Executable) {
        let mut state = lock(&self.state);
        state.n_graphs += 1;
        if !state.graph_trace {
            return;
        }
        let params = &executable.graph().params;
        note(&format!(
            "graph {} {:?} n_tokens {} n_out {} n_ctx {} nodes {}",
            state.n_graphs,
            params.gtype,
            params.n_tokens,
            params.n_out,
            params.cparams.n_ctx,
            executable.graph().nodes.len(),
        ));
        executable.schedule().lines(executable.graph()).for_each(|line| note(&line));
        executable.census().rows().for_each(|row| note(&row.to_string()));
    }

    fn node_start(&mut self, _node: &Node, _sources: &mut NodeSources<'_>) {
        self.node_start = Instant::now();
    }

    fn node_end(&mut self, node: &Node, value: &mut NodeValue<'_>) {
        let mut state = lock(&self.state);
        if state.profile.is_none() && state.trace.is_none() {
            return;
        }
        if !self.measured || node.backend == Some(BackendId::CPU) {
            // A failing backend reports the same error at the end of the step.
            let _ = value.synchronize();
        }
        let time = self.node_start.elapsed();
        if let Some(trace) = &mut state.trace {
            trace.event(&format!("{:?}", node.op.kind()), node, self.node_start, time);
        }
        if let Some(profile) = &mut state.profile {
            profile.entry((node.op.kind(), node.backend)).or_default().add(time);
        }
    }
}

/// One line per op and backend, those that took longest first. `on_device` adds what a device with a clock
/// has measured.
fn profile_lines(profile: &Profile, on_device: Option<&BTreeMap<OpKind, OpTime>>) -> Vec<String> {
    let total: Duration = profile.values().map(|op| op.total).sum();
    let mut rows: Vec<_> = profile.iter().collect();
    rows.sort_by_key(|(_, op)| std::cmp::Reverse(op.total));
    let is_device = |backend: &Option<BackendId>| *backend != Some(BackendId::CPU);
    let has_device = profile.keys().any(|(_, backend)| is_device(backend));
    let line = |op: &str, backend: &str, host: [String; 4], device: [String; 2]| {
        let [n, ms, mean, share] = host;
        let backend = if has_device { format!("{backend:<9}") } else { String::new() };
        let device = if on_device.is_some() {
            device.map(|text| format!(" {text:>12}")).concat()
        } else {
            String::new()
        };
        format!("{op:<18} {backend}{n:>9} {ms:>11} {mean:>9} {share:>6}{device}")
    };
    let heads = ["runs", if has_device { "host ms" } else { "total ms" }, "mean us", "share"];
    let mut lines =
        vec![line("op", "backend", heads.map(String::from), ["device ms", "mean us"].map(String::from))];
    lines.extend(rows.iter().map(|((op, backend), time)| {
        let [ms, mean] = milli_and_mean_micro(time);
        let share = time.total.as_secs_f64() / total.as_secs_f64() * 100.0;
        let host = [time.n.to_string(), ms, mean, format!("{share:.1}%")];
        let measured = on_device.and_then(|times| times.get(op)).filter(|_| is_device(backend));
        let device = measured.map_or(Default::default(), milli_and_mean_micro);
        line(&format!("{op:?}"), &backend.map_or(String::new(), |id| id.to_string()), host, device)
    }));
    lines
}

fn milli_and_mean_micro(time: &OpTime) -> [String; 2] {
    let ms = time.total.as_secs_f64() * 1e3;
    [format!("{ms:.2}"), format!("{:.1}", ms * 1e3 / time.n as f64)]
}

impl Trace {
    fn create(path: PathBuf) -> Result<Trace, CliError> {
        let file = File::create(&path).map_err(CliError::file("write", &path))?;
        Ok(Trace {
            path,
            file: BufWriter::new(file),
            start: Instant::now(),
            error: None,
            n_events: 0,
            is_closed: false,
        })
    }

    fn event(&mut self, op: &str, node: &Node, start: Instant, time: Duration) {
        let at = start.saturating_duration_since(self.start);
        let backend = node.backend.map(|backend| backend.to_string()).unwrap_or_default();
        let event = serde_json::json!({
            "name": &*node.name, "cat": op, "ph": "X", "pid": 1, "tid": 1,
            "ts": at.as_secs_f64() * 1e6, "dur": time.as_secs_f64() * 1e6,
            "args": {"op": op, "backend": backend, "layer": node.layer, "shape": node.shape.to_string()},
        });
        let open = if self.n_events == 0 { "[\n" } else { ",\n" };
        self.n_events += 1;
        if self.error.is_none() {
            self.error = write!(self.file, "{open}{event}").err();
        }
    }

    fn finish(mut self) -> Result<(), CliError> {
        self.close().map_err(CliError::file("write", &self.path))
    }

    /// Completes the file, once.
    fn close(&mut self) -> std::io::Result<()> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let open = if self.n_events == 0 { "[" } else { "" };
        writeln!(self.file, "{open}\n]")?;
        self.file.flush()
    }
}

/// After a run that failed, the file has all events up to there.
impl Drop for Trace {
    fn drop(&mut self) {
        // The failure of the run is what its user is told.
        let _ = self.close();
    }
}
