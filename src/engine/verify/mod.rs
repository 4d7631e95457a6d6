//! Checking a backend against another one: node by node, and the model as a whole.
//!
//! The reference runs a prompt and some tokens after it. Every node that it runs is repeated by the backend
//! under test on the same sources, and the results are compared. Beside it, two contexts of the engine under
//! test run the same tokens, one as it would for a user and one without any fused node: their logits have to
//! be the same bits, and near the reference's. As a reference never has fused nodes of a device, this is what
//! checks those.

mod compare;
mod report;
mod tolerance;
mod twin;

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Batch, Context, ContextOptions, Engine, EngineError, arg_max};
use crate::graph::{Backend, BackendId, Fusion, GraphType, KvFormat};
use crate::kv::SeqId;
use crate::models::Weights;
use twin::Twin;

pub use compare::{Difference, Element};
pub use report::{FusionReport, LogitsReport, NodeFailure, OpReport, Skipped, VerifyReport};
pub use tolerance::NodeClass;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOptions<'a> {
    /// The prompt, computed at once.
    pub prompt: &'a [u32],
    /// Tokens computed one by one after it: those that the reference finds most likely.
    pub n_decode: usize,
    /// How keys and values are stored.
    pub kv_format: KvFormat,
    /// Ends the work at the next step when raised.
    pub cancel: &'a AtomicBool,
}

/// Checks what `tested` computes with against what `reference` computes with. Both have loaded the same
/// model.
pub fn verify(
    tested: &Engine,
    reference: &Engine,
    options: &VerifyOptions<'_>,
) -> Result<VerifyReport, EngineError> {
    let (id, backend) = backend_of(tested)?;
    let mut twin = Twin::new(id, backend, options.kv_format);
    let mut runs = Runs::open(tested, reference, options)?;
    let mut next = options.prompt.to_vec();
    for step in 0..=options.n_decode {
        if options.cancel.load(Ordering::Relaxed) {
            return Err(EngineError::Cancelled);
        }
        twin.step = match step {
            0 => format!("prompt of {} tokens", next.len()),
            _ => format!("decoded token {step}"),
        };
        next = vec![runs.step(&next, &mut twin)?];
        if let Some(error) = twin.take_error() {
            return Err(error.into());
        }
    }
    let n_nodes = runs.fused.n_fused_nodes()?;
    let fusion =
        FusionReport { n_nodes, n_steps: runs.n_steps, first_difference: runs.first_fused_difference };
    let logits = runs.logits_report(&tested.model().weights, options.kv_format);
    Ok(VerifyReport {
        ops: twin.ops,
        skipped: twin.skipped.into_iter().collect(),
        first_failure: twin.failure,
        fusion,
        logits,
    })
}

/// The backend that `engine` is there for: its device's, or else the CPU's.
fn backend_of(engine: &Engine) -> Result<(BackendId, Box<dyn Backend>), EngineError> {
    match engine.device() {
        Some(device) => Ok((device.id(), device.backend()?)),
        None => Ok((BackendId::CPU, Box::new(engine.cpu_backend()))),
    }
}

/// A context with a sequence in it.
struct Run {
    context: Context,
    seq: SeqId,
}

impl Run {
    fn open(engine: &Engine, options: &ContextOptions, fuse: bool) -> Result<Run, EngineError> {
        let mut context = engine.context(options)?;
        if !fuse {
            context.without_fusions();
        }
        let seq = context.kv_mut().open()?;
        Ok(Run { context, seq })
    }

    /// A context whose nodes all are of ops that other backends have too, and whose products are as exact as they can be:
    /// eight bits of activations, which are the fastest, would hide what a backend does wrong.
    fn open_reference(engine: &Engine, options: &ContextOptions) -> Result<Run, EngineError> {
        let mut run = Run::open(engine, options, true)?;
        run.context.set_fusion(false, false);
        run.context.with_precise_products();
        Ok(run)
    }

    /// The logits after `tokens`, `[n_vocab] f32`.
    fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
        Ok(self.context.decode(&Batch::prompt(self.seq, tokens))?.row(0).to_vec())
    }

    /// Fused nodes in the graph of a decode step.
    fn n_fused_nodes(&mut self) -> Result<usize, EngineError> {
        let params = self.context.params(1, 1, GraphType::Decode);
        let executable = self.context.executable(&params)?;
        Ok(executable.graph().nodes.iter().filter(|node| node.op.fusion() != Fusion::None).count())
    }
}

/// The reference, and the tested engine with and without fused nodes.
struct Runs {
    reference: Run,
    fused: Run,
    unfused: Run,
    n_steps: usize,
    first_fused_difference: Option<(usize, Element)>,
    difference: Difference,
    n_same_token: usize,
}

impl Runs {
    fn open(tested: &Engine, reference: &Engine, options: &VerifyOptions<'_>) -> Result<Runs, EngineError> {
        let n_ctx = options.prompt.len().saturating_add(options.n_decode);
        let kv_format = options.kv_format;
        let context = ContextOptions { n_ctx: Some(n_ctx.max(1)), kv_format, ..ContextOptions::default() };
        Ok(Runs {
            reference: Run::open_reference(reference, &context)?,
            fused: Run::open(tested, &context, true)?,
            unfused: Run::open(tested, &context, false)?,
            n_steps: 0,
            first_fused_difference: None,
            difference: Difference::default(),
            n_same_token: 0,
        })
    }

    /// Computes `tokens` everywhere and returns what the reference finds most likely next.
    fn step(&mut self, tokens: &[u32], twin: &mut Twin) -> Result<u32, EngineError> {
        let Run { context, seq } = &mut self.reference;
        let expected = context.decode_observed(&Batch::prompt(*seq, tokens), twin)?.row(0).to_vec();
        let (fused, unfused) = (self.fused.logits(tokens)?, self.unfused.logits(tokens)?);
        if self.first_fused_difference.is_none() {
            self.first_fused_difference = first_other_bits(&unfused, &fused).map(|at| (self.n_steps, at));
        }
        self.difference = self.difference.max(Difference::between(&expected, &fused, expected.len()));
        let next = arg_max(&expected);
        self.n_same_token += usize::from(next == arg_max(&fused));
        self.n_steps += 1;
        Ok(next)
    }

    fn logits_report(&self, weights: &Weights, kv_format: KvFormat) -> LogitsReport {
        LogitsReport {
            n_steps: self.n_steps,
            n_same_token: self.n_same_token,
            difference: self.difference,
            tolerance: tolerance::logits(weights, kv_format),
        }
    }
}

/// The first element that is not the same to the bit.
fn first_other_bits(expected: &[f32], got: &[f32]) -> Option<Element> {
    let index = expected.iter().zip(got).position(|(a, b)| a.to_bits() != b.to_bits())?;
    Some(Element { index, expected: expected[index], got: got[index] })
}
