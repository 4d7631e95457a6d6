//! The offload plan: which blocks a device takes, and which weights it is given for them.
//!
//! There is one plan per loaded model. The loader uploads its weights, and its number of blocks is what the
//! builder and assignment follow. A device takes the blocks `0..gpu_layers`; embedding, final norm and head
//! follow only if it takes all.

use std::collections::BTreeSet;
use std::fmt;

use super::{ContextOptions, EngineError, memory};
use crate::graph::{BackendId, KvShape, WeightRef};
use crate::models::{HParams, Model};

/// How many blocks run on a device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum GpuLayers {
    /// As many as fit into its memory, from the first on.
    #[default]
    Auto,
    /// So many, or all if there are fewer.
    Count(usize),
}

/// Bytes that a number of blocks takes on a device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DeviceNeed {
    /// The blocks' weights, and those of embedding and head if all blocks are there.
    pub weights_bytes: usize,
    /// The blocks' keys and values, for the context that is expected.
    pub kv_bytes: usize,
    /// Intermediate results of the graphs that a context keeps.
    pub values_bytes: usize,
}

impl DeviceNeed {
    /// All of it.
    pub fn total_bytes(&self) -> usize {
        self.weights_bytes.saturating_add(self.kv_bytes).saturating_add(self.values_bytes)
    }
}

impl fmt::Display for DeviceNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [weights, kv, values] = [self.weights_bytes, self.kv_bytes, self.values_bytes].map(mib);
        write!(f, "weights {weights:.1}, keys and values {kv:.1}, intermediate results {values:.1}")
    }
}

/// MiB of `bytes`.
pub(super) fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// What a device takes of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Offload {
    /// Blocks `0..gpu_layers`; at least one.
    pub(super) gpu_layers: usize,
    /// Names of the weights that it is given, each once.
    pub(super) weights: BTreeSet<String>,
    /// Names of weights that one kernel reads one after the other.
    pub(super) groups: Vec<Vec<String>>,
}

/// What a plan is made from.
pub(super) struct Planner<'a> {
    pub(super) model: &'a Model,
    /// The device.
    pub(super) backend: BackendId,
    /// Bytes of a weight on the device.
    pub(super) weight_bytes: &'a dyn Fn(&str) -> usize,
    /// Bytes that weights, keys and values, and intermediate results may take; `None` for any number.
    pub(super) budget_bytes: Option<usize>,
    /// Bytes that the keys or the values of one layer may take; `None` for any number.
    pub(super) max_region_bytes: Option<usize>,
    /// The context to keep room for.
    pub(super) context: &'a ContextOptions,
}

impl Planner<'_> {
    /// The plan for `asked` blocks; `None` if the device takes none.
    pub(super) fn plan(&self, asked: GpuLayers) -> Result<Option<Offload>, EngineError> {
        let n_layer = self.model.hparams.n_layer;
        let most = || match self.region_too_large() {
            Some(_) => 0,
            None => (1..=n_layer).rev().find(|&n| self.fits(n)).unwrap_or(0),
        };
        let gpu_layers = match asked {
            GpuLayers::Auto => most(),
            GpuLayers::Count(n) => n.min(n_layer),
        };
        if let Some((got, max)) = self.region_too_large().filter(|_| gpu_layers > 0) {
            return Err(EngineError::RegionTooLarge { backend: self.backend, got, max });
        }
        if !self.fits(gpu_layers) {
            return Err(EngineError::OffloadTooBig {
                backend: self.backend,
                gpu_layers,
                n_layer,
                need: self.need(gpu_layers),
                budget_bytes: self.budget_bytes.unwrap_or(usize::MAX),
                n_fitting: most(),
            });
        }
        Ok((gpu_layers > 0).then(|| self.offload(gpu_layers)))
    }

    fn fits(&self, gpu_layers: usize) -> bool {
        gpu_layers == 0
            || self.budget_bytes.is_none_or(|budget| self.need(gpu_layers).total_bytes() <= budget)
    }

    /// What `gpu_layers` blocks need on the device.
    pub(super) fn need(&self, gpu_layers: usize) -> DeviceNeed {
        let n_layer = self.model.hparams.n_layer;
        let weights = self.weights(gpu_layers);
        let shape = self.kv_shape();
        let n_batch = self.context.n_batch.min(shape.n_cells);
        DeviceNeed {
            weights_bytes: weights
                .iter()
                .map(|name| (self.weight_bytes)(name))
                .fold(0, usize::saturating_add),
            kv_bytes: usize::try_from(memory::kv_bytes(&shape, gpu_layers)).unwrap_or(usize::MAX),
            values_bytes: values_bytes(&self.model.hparams, n_batch, gpu_layers == n_layer),
        }
    }

    /// A layer's keys and values in the context that is expected.
    fn kv_shape(&self) -> KvShape {
        KvShape {
            n_cells: memory::n_ctx(self.context.n_ctx, self.model.hparams.n_ctx_train),
            k_row_elems: self.model.hparams.n_embd_k(),
            v_row_elems: self.model.hparams.n_embd_v(),
            format: self.context.kv_format,
        }
    }

    /// Bytes of the larger one of a layer's keys and values, and how many there may be, if they are too many.
    pub(super) fn region_too_large(&self) -> Option<(usize, usize)> {
        let (shape, max) = (self.kv_shape(), self.max_region_bytes?);
        let row_bytes = shape.format.row_bytes(shape.k_row_elems.max(shape.v_row_elems))?;
        let got = shape.n_cells.saturating_mul(row_bytes);
        (got > max).then_some((got, max))
    }

    fn offload(&self, gpu_layers: usize) -> Offload {
        let layers = &self.model.weights.layers[..gpu_layers];
        let names = |group: &Vec<&WeightRef>| group.iter().map(|weight| weight.name.to_string()).collect();
        let groups = layers.iter().flat_map(|layer| layer.groups()).map(|group| names(&group)).collect();
        Offload { gpu_layers, weights: self.weights(gpu_layers), groups }
    }

    /// Names of the weights that the device needs for `gpu_layers` blocks.
    fn weights(&self, gpu_layers: usize) -> BTreeSet<String> {
        let weights = &self.model.weights;
        let mut needed: Vec<&WeightRef> =
            weights.layers[..gpu_layers].iter().flat_map(|layer| layer.all()).collect();
        needed.extend(weights.rope_freqs.iter().filter(|_| gpu_layers > 0));
        if gpu_layers > 0 && gpu_layers == weights.layers.len() {
            needed.extend(weights.around_blocks());
        }
        needed.into_iter().map(|weight| weight.name.to_string()).collect()
    }
}

/// Bytes to keep free for intermediate results: twice what a block of a full batch has at once, as a context
/// keeps graphs of several lengths, and with the head the logits of every row.
fn values_bytes(hparams: &HParams, n_batch: usize, with_head: bool) -> usize {
    let HParams { n_embd, n_ff, n_vocab, .. } = *hparams;
    let (n_q, n_kv) = (hparams.n_embd_q(), hparams.n_embd_k() + hparams.n_embd_v());
    let block_elems = 4 * n_embd + 2 * n_q + 2 * n_kv + 3 * n_ff;
    let row_elems = 2 * block_elems + if with_head { n_vocab } else { 0 };
    // Buffers come in size classes, up to an eighth larger than what was asked for.
    [row_elems, 4, n_batch, 9].into_iter().fold(1, usize::saturating_mul) / 8
}
