//! From a file to text: loaded model, contexts, batches, sampling, generation, scoring.
//!
//! | file | question it answers |
//! |---|---|
//! | `loaded`, `template`, `prefetch` | what a loaded model consists of |
//! | `device`, `offload`, `drill` | which part of it a device takes, and what if that is lost |
//! | `context`, `step`, `memory` | how batches become graph runs, and what that takes |
//! | `batch`, `logits` | what goes in and what comes out |
//! | `session` | which tokens of a conversation are computed already |
//! | `sampler` | which token comes next |
//! | `generate`, `stop`, `timings` | how an answer grows and ends |
//! | `draft/` | which tokens may come next, to be checked together |
//! | `score`, `bench` | how well and how fast the model predicts |
//! | `cost`, `roofline` | what a step cannot do without, and what the machine can do |
//! | `verify/` | whether a backend computes what another one does |
//!
//! Nothing here prints or reads the environment: warnings are returned, progress goes through callbacks.

mod batch;
mod bench;
mod context;
mod cost;
mod device;
mod draft;
mod drill;
mod error;
mod generate;
mod loaded;
mod logits;
mod memory;
mod offload;
mod prefetch;
mod roofline;
pub mod sampler;
mod score;
mod session;
mod step;
mod stop;
mod template;
mod timings;
pub mod verify;

pub use batch::{Batch, BatchToken};
pub use bench::{BenchRun, BenchTest};
pub use context::{Context, ContextOptions};
pub use cost::Cost;
pub use device::{DeviceOptions, OpenedDevice};
pub use draft::{DEFAULT_DRAFT_MAX, Draft};
pub use error::EngineError;
pub use generate::{FinishReason, GenerateOptions, Generated, Generator, OnPiece};
pub use loaded::{Engine, EngineOptions, Placement};
pub use logits::{Logits, arg_max, log_sum_exp, top_log_probs};
pub use memory::{DEFAULT_MAX_N_CTX, available_bytes};
pub use offload::{DeviceNeed, GpuLayers};
pub use roofline::Limits;
pub use sampler::{SampleError, Sampler, SamplerOptions};
pub use score::Perplexity;
pub use session::Session;
pub use timings::{OpTime, Timings};
