//! A context: the keys and values of some sequences, and the graphs that extend them.

use std::collections::BTreeMap;

use super::step::{Step, graph_type, sequences};
use super::{Batch, BatchToken, Engine, EngineError, Logits, OpTime, logits, memory};
use crate::graph::{
    ActivationPrecision, AssignQuery, Backend, BackendId, BackendSet, CParams, Executable, GraphCache,
    GraphError, GraphParams, GraphType, KvFormat, Node, Observer, Op, OpKind, PAGE_TOKENS, WorkCounts,
};
use crate::kv::KvPages;

/// Settings of a context.
#[derive(Clone, Debug)]
pub struct ContextOptions {
    /// Tokens that all sequences together can keep, rounded up to whole pages. `None` or 0: the model's
    /// trained length, at most [`DEFAULT_MAX_N_CTX`](super::DEFAULT_MAX_N_CTX).
    pub n_ctx: Option<usize>,
    /// Sequences that can live at once.
    pub n_seq_max: usize,
    /// Tokens computed together at most; longer batches are split.
    pub n_batch: usize,
    /// How keys and values are stored.
    pub kv_format: KvFormat,
    /// Fused Q/K/V nodes when decoding on a device.
    pub fuse_qkv: bool,
    /// Fused gate/up nodes when decoding on a device.
    pub fuse_ffn: bool,
    /// Bytes that keys and values may take; `None` for what the system can give.
    pub kv_budget_bytes: Option<usize>,
}

impl Default for ContextOptions {
    fn default() -> ContextOptions {
        ContextOptions {
            n_ctx: None,
            n_seq_max: 1,
            n_batch: 512,
            kv_format: KvFormat::F16,
            fuse_qkv: true,
            fuse_ffn: true,
            kv_budget_bytes: None,
        }
    }
}

/// The keys and values of some sequences, and the graphs that extend them.
pub struct Context {
    engine: Engine,
    cparams: CParams,
    n_batch: usize,
    kv: KvPages,
    backends: BackendSet,
    /// Products keep sixteen bits of their activations.
    is_precise: bool,
    cache: GraphCache,
    step: Step,
    /// `[n_vocab, n_rows] f32` of the last batch.
    logits: Vec<f32>,
    warnings: Vec<String>,
    observer: Box<dyn Observer + Send>,
    /// Time per op on the device, if it is measured.
    device_times: Option<BTreeMap<OpKind, OpTime>>,
}

impl Context {
    pub(super) fn new(engine: Engine, options: &ContextOptions) -> Result<Context, EngineError> {
        let hparams = &engine.model().hparams;
        let n_ctx = memory::n_ctx(options.n_ctx, hparams.n_ctx_train);
        for (what, got) in [("n_seq_max", options.n_seq_max), ("n_batch", options.n_batch)] {
            if got == 0 {
                return Err(EngineError::BadOption { what, expected: "at least 1".to_string(), got });
            }
        }
        memory::check_kv_format(options.kv_format, hparams)?;
        let cparams = engine.cparams(n_ctx, options);
        let available_bytes = memory::available_bytes();
        check_kv(&engine, &cparams, options.kv_budget_bytes, available_bytes)?;
        let mut backends = engine.backends()?;
        if let (Some(available_bytes), Some(cpu)) = (available_bytes, backends.get(BackendId::CPU)) {
            // Weights of its own are in memory already, so they are no longer available.
            let budget_bytes = available_bytes.saturating_add(cpu.weights_bytes());
            backends.set_budget(BackendId::CPU, budget_bytes);
        }
        Ok(Context {
            cparams,
            n_batch: options.n_batch.min(n_ctx),
            kv: KvPages::new(n_ctx / PAGE_TOKENS, options.n_seq_max),
            backends,
            cache: GraphCache::default(),
            step: Step::default(),
            logits: Vec::new(),
            is_precise: false,
            warnings: length_warning(n_ctx, hparams.n_ctx_train).into_iter().collect(),
            observer: Box::new(()),
            device_times: None,
            engine,
        })
    }

    /// The model that this context belongs to.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Tokens that all sequences together can keep.
    pub fn n_ctx(&self) -> usize {
        self.cparams.n_ctx
    }

    /// Tokens computed together at most.
    pub fn n_batch(&self) -> usize {
        self.n_batch
    }

    /// What the user should know about the settings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Bytes of all layers' keys and values.
    pub fn kv_bytes(&self) -> usize {
        let model = self.engine.model();
        memory::kv_bytes(&model.kv_shape(&self.cparams), model.hparams.n_layer) as usize
    }

    /// The sequences and their pages.
    pub fn kv(&self) -> &KvPages {
        &self.kv
    }

    /// The sequences and their pages, to open, fork, truncate and close sequences.
    pub fn kv_mut(&mut self) -> &mut KvPages {
        &mut self.kv
    }

    /// Switches the fused decode nodes on or off. The graphs of both kinds stay cached.
    pub fn set_fusion(&mut self, fuse_qkv: bool, fuse_ffn: bool) {
        self.cparams.fuse_qkv = fuse_qkv;
        self.cparams.fuse_ffn = fuse_ffn;
    }

    /// Makes every node of the model a node of its own from now on, on any backend.
    pub(super) fn without_fusions(&mut self) {
        self.set_fusion(false, false);
        self.backends.refuse_fusions();
        self.cache.clear();
    }

    /// Makes every product keep sixteen bits of its activations from now on, whatever is fastest.
    pub(super) fn with_precise_products(&mut self) {
        self.is_precise = true;
        self.cache.clear();
    }

    /// Watches every step of [`Context::decode`] from now on.
    pub fn set_observer(&mut self, observer: Box<dyn Observer + Send>) {
        self.observer = observer;
    }

    /// What the device did so far; all zero without one.
    pub fn work(&self) -> WorkCounts {
        let device = self.engine.device().and_then(|device| self.backends.get(device.id()));
        device.map_or(WorkCounts::default(), Backend::counts)
    }

    /// Has the device measure the time of every node from now on. False if there is none, or none with a
    /// clock.
    pub fn measure_device(&mut self) -> bool {
        let device = self.engine.device().and_then(|device| self.backends.get_mut(device.id()));
        let has_clock = device.is_some_and(Backend::measure);
        self.device_times = has_clock.then(BTreeMap::new);
        has_clock
    }

    /// The time per op on the device since [`Context::measure_device`] said yes.
    pub fn device_times(&self) -> Option<&BTreeMap<OpKind, OpTime>> {
        self.device_times.as_ref()
    }

    /// What the graph of a step is a function of: `n_tokens` tokens of which `n_out` need logits.
    pub fn params(&self, n_tokens: usize, n_out: usize, gtype: GraphType) -> GraphParams {
        GraphParams { n_tokens, n_out, gtype, cparams: self.cparams, weights_version: 0 }
    }

    /// The graph of `params`, ready to run: cached, or built now.
    pub fn executable(&mut self, params: &GraphParams) -> Result<&mut Executable, EngineError> {
        let Context { engine, backends, cache, is_precise, .. } = self;
        Ok(executable(engine, backends, cache, params, *is_precise)?.0)
    }

    /// Graphs built so far.
    pub fn n_graph_builds(&self) -> u64 {
        self.cache.n_builds()
    }

    /// Computes a batch and returns the logits that its tokens asked for. On an error all sequences are as
    /// long as before.
    pub fn decode(&mut self, batch: &Batch) -> Result<Logits<'_>, EngineError> {
        let mut observer = std::mem::replace(&mut self.observer, Box::new(()));
        let done = self.decode_observed(batch, &mut *observer).map(drop);
        self.observer = observer;
        done?;
        Ok(self.logits())
    }

    /// The logits of the last batch.
    pub(super) fn logits(&self) -> Logits<'_> {
        Logits::new(&self.logits, self.engine.model().hparams.n_vocab)
    }

    /// [`Context::decode`] with an observer of every node that runs.
    pub fn decode_observed(
        &mut self,
        batch: &Batch,
        observer: &mut dyn Observer,
    ) -> Result<Logits<'_>, EngineError> {
        let tokens = batch.tokens();
        self.check_tokens(tokens)?;
        let mut before = Vec::new();
        for seq in sequences(tokens) {
            before.push((seq, self.kv.len(seq)?));
        }
        self.logits.clear();
        let run = tokens.chunks(self.n_batch).try_for_each(|chunk| self.run(chunk, observer));
        let n_vocab = self.engine.model().hparams.n_vocab;
        if let Err(error) = run.and_then(|()| logits::check(&self.logits, n_vocab)) {
            for (seq, n_tokens) in before {
                self.kv.truncate(seq, n_tokens)?;
            }
            return Err(error);
        }
        Ok(Logits::new(&self.logits, n_vocab))
    }

    fn check_tokens(&self, tokens: &[BatchToken]) -> Result<(), EngineError> {
        let n_vocab = self.engine.model().hparams.n_vocab;
        match tokens.iter().find(|token| token.token as usize >= n_vocab) {
            Some(token) => Err(EngineError::UnknownToken { id: token.token, n_vocab }),
            None if tokens.is_empty() => Err(EngineError::EmptyPrompt),
            None => Ok(()),
        }
    }

    /// Computes at most `n_batch` tokens and appends their logits.
    fn run(&mut self, tokens: &[BatchToken], observer: &mut dyn Observer) -> Result<(), EngineError> {
        let filled = self.step.fill(&mut self.kv, tokens);
        // Also if something fails from here on: a sequence keeps the page that it has got, so what was in the
        // old one goes along.
        for copy in &self.step.copies {
            self.backends.copy_cells(copy.from, copy.to, copy.n_rows)?;
        }
        filled?;
        let params = self.params(tokens.len(), self.step.n_out(), graph_type(tokens));
        let Context { engine, backends, cache, step, logits, is_precise, .. } = self;
        let (executable, is_new) = executable(engine, backends, cache, &params, *is_precise)?;
        if is_new {
            observer.graph_built(executable);
        }
        executable.run(backends, &step.inputs(), observer)?;
        if step.n_out() == 0 {
            return self.take_times();
        }
        let mut rows = Vec::new();
        let target = if logits.is_empty() { &mut *logits } else { &mut rows };
        executable.read_output(backends, 0, target)?;
        logits.extend_from_slice(&rows);
        self.take_times()
    }

    /// Adds what the device has measured in a step, if it measures.
    fn take_times(&mut self) -> Result<(), EngineError> {
        let (Some(times), Some(device)) = (&mut self.device_times, self.engine.device()) else {
            return Ok(());
        };
        let id = device.id();
        let measured = self.backends.enabled(id)?.take_times();
        let measured = measured.map_err(|source| GraphError::on_backend("reading times", id, source))?;
        measured.into_iter().for_each(|(op, time)| times.entry(op).or_default().add(time));
        Ok(())
    }
}

/// Refuses a context whose keys and values do not fit where they go.
fn check_kv(
    engine: &Engine,
    cparams: &CParams,
    asked_bytes: Option<usize>,
    available_bytes: Option<usize>,
) -> Result<(), EngineError> {
    let (shape, n_layer) = (engine.model().kv_shape(cparams), engine.model().hparams.n_layer);
    if asked_bytes.is_some() {
        memory::check_kv(&shape, n_layer, None, asked_bytes)?;
    }
    memory::check_kv(&shape, n_layer - cparams.gpu_layers.min(n_layer), None, available_bytes)?;
    let Some(device) = engine.device() else { return Ok(()) };
    let weights_bytes = device.device().weights_bytes();
    let budget_bytes = device.budget_bytes.map(|budget| budget.saturating_sub(weights_bytes));
    memory::check_kv(&shape, cparams.gpu_layers, Some(device.id()), budget_bytes)
}

/// The graph of `params`, and whether it was built just now.
fn executable<'c>(
    engine: &Engine,
    backends: &mut BackendSet,
    cache: &'c mut GraphCache,
    params: &GraphParams,
    is_precise: bool,
) -> Result<(&'c mut Executable, bool), EngineError> {
    let (model, policy) = (engine.model(), engine.policy());
    let mut is_new = false;
    let build = |set: &BackendSet| {
        is_new = true;
        let mut graph = model.build(params, &AssignQuery { set, policy });
        if let (true, Ok(graph)) = (is_precise, &mut graph) {
            graph.nodes.iter_mut().for_each(keep_activations);
        }
        graph
    };
    let executable = cache.get_or_build(params, backends, policy, build)?;
    Ok((executable, is_new))
}

/// Has a product keep what an integer kernel can of its activations.
fn keep_activations(node: &mut Node) {
    if let Op::MatMul(op) = &mut node.op {
        op.activations = ActivationPrecision::Bits16;
    }
}

/// Beyond the trained length, in whole pages, positions mean nothing to the model.
fn length_warning(n_ctx: usize, n_ctx_train: usize) -> Option<String> {
    let beyond = n_ctx > n_ctx_train.next_multiple_of(PAGE_TOKENS);
    beyond.then(|| {
        format!("context of {n_ctx} tokens: the model was trained with {n_ctx_train}; text beyond that may be poor")
    })
}
