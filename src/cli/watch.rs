//! What `MINFER_GRAPH_TRACE`, `MINFER_OP_PROFILE` and `MINFER_TRACE` show: an observer of the graph's execution.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::CliError;
use super::output::note;
use crate::config::Config;
use crate::engine::Context;
use crate::graph::{Executable, Node, NodeValue, Observer};

/// What was watched, to be printed at the end of the run.
#[derive(Clone, Default)]
pub(super) struct Watch {
    state: Option<Arc<Mutex<State>>>,
}

#[derive(Default)]
struct State {
    graph_trace: bool,
    n_graphs: usize,
    profile: Option<BTreeMap<String, OpTime>>,
    trace: Option<Trace>,
}

/// Time of all nodes of one op.
#[derive(Clone, Copy, Default)]
struct OpTime {
    n: u64,
    total: Duration,
}

/// A file of node times in the trace event format of browsers.
struct Trace {
    path: PathBuf,
    file: BufWriter<File>,
    start: Instant,
    /// The first failure to write; the run goes on without a trace.
    error: Option<std::io::Error>,
    n_events: u64,
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
        context.set_observer(Box::new(Watcher { state: Arc::clone(&state), node_start: Instant::now() }));
        Ok(Watch { state: Some(state) })
    }

    /// Prints the profile and completes the trace.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let Some(state) = &self.state else { return Ok(()) };
        let mut state = lock(state);
        if state.graph_trace {
            note(&format!("graphs built: {}", state.n_graphs));
        }
        if let Some(profile) = &state.profile {
            profile_lines(profile).iter().for_each(|line| note(line));
        }
        state.trace.take().map_or(Ok(()), Trace::finish)
    }
}

fn lock(state: &Arc<Mutex<State>>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Watcher {
    state: Arc<Mutex<State>>,
    node_start: Instant,
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

    fn node_start(&mut self, _node: &Node) {
        self.node_start = Instant::now();
    }

    fn node_end(&mut self, node: &Node, value: &mut NodeValue<'_>) {
        let mut state = lock(&self.state);
        if state.profile.is_none() && state.trace.is_none() {
            return;
        }
        // A failing backend reports the same error at the end of the step.
        let _ = value.synchronize();
        let time = self.node_start.elapsed();
        let op = format!("{:?}", node.op.kind());
        if let Some(trace) = &mut state.trace {
            trace.event(&op, node, self.node_start, time);
        }
        if let Some(profile) = &mut state.profile {
            let entry = profile.entry(op).or_default();
            entry.n += 1;
            entry.total += time;
        }
    }
}

fn profile_lines(profile: &BTreeMap<String, OpTime>) -> Vec<String> {
    let total: Duration = profile.values().map(|op| op.total).sum();
    let mut rows: Vec<_> = profile.iter().collect();
    rows.sort_by_key(|(_, op)| std::cmp::Reverse(op.total));
    let mut lines =
        vec![format!("{:<18} {:>9} {:>11} {:>9} {:>6}", "op", "runs", "total ms", "mean us", "share")];
    lines.extend(rows.iter().map(|(name, op)| {
        let (ms, share) = (op.total.as_secs_f64() * 1e3, op.total.as_secs_f64() / total.as_secs_f64());
        format!("{name:<18} {:>9} {ms:>11.2} {:>9.1} {:>5.1}%", op.n, ms * 1e3 / op.n as f64, share * 100.0)
    }));
    lines
}

impl Trace {
    fn create(path: PathBuf) -> Result<Trace, CliError> {
        let file = File::create(&path).map_err(CliError::file("write", &path))?;
        Ok(Trace { path, file: BufWriter::new(file), start: Instant::now(), error: None, n_events: 0 })
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
        let open = if self.n_events == 0 { "[" } else { "" };
        let written = match self.error.take() {
            Some(error) => Err(error),
            None => writeln!(self.file, "{open}\n]").and_then(|()| self.file.flush()),
        };
        written.map_err(CliError::file("write", &self.path))
    }
}
