//! Model architectures: from a file's metadata and tensors to a compute graph.
//!
//! [`HParams`] and [`Weights`] are read and checked once, when a model is loaded; `blocks` holds the pieces that all
//! architectures share; one file per architecture says only what differs.

mod arch;
mod blocks;
mod error;
mod hparams;
mod llama;
mod qwen2;
mod qwen3;
mod rope;
mod weights;

#[cfg(test)]
mod tests;

pub use arch::Architecture;
pub use error::ModelError;
pub use hparams::HParams;
pub use rope::RopeParams;
pub use weights::{LayerWeights, Linear, TensorLookup, Weights};

use crate::gguf::Metadata;
use crate::graph::{BuildQuery, Graph, GraphError, GraphParams};

/// A loaded model: everything that graphs are built from. The weights' bytes live on the backends.
#[derive(Clone, Debug)]
pub struct Model {
    /// What the architecture does differently.
    pub arch: &'static Architecture,
    /// Sizes and constants.
    pub hparams: HParams,
    /// Names, shapes and types of all weights.
    pub weights: Weights,
}

impl Model {
    /// Reads hyper-parameters and finds every weight; `tensors` answers for shapes and types by name.
    pub fn load(metadata: &Metadata, tensors: &TensorLookup<'_>) -> Result<Model, ModelError> {
        let arch = Architecture::from_metadata(metadata)?;
        let hparams = HParams::from_metadata(metadata, arch, tensors)?;
        let weights = Weights::find(arch, &hparams, tensors)?;
        Ok(Model { arch, hparams, weights })
    }

    /// The graph of `params`, a pure function of them. `query` decides the decode fusions. The graph's only output is
    /// `[n_vocab, n_out] f32` logits; if `n_out` is 0 there is none, and the graph only writes keys and values.
    pub fn build(&self, params: &GraphParams, query: &dyn BuildQuery) -> Result<Graph, GraphError> {
        blocks::build(self, params, query)
    }
}
