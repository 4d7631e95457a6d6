//! What one node leaves for the next: quantised activations, rotation tables, working memory.

use super::attention::Workspaces;
use super::rope_table::RopeTables;
use crate::graph::{ActivationPrecision, BufferId, Operand, Slot};
use crate::vec_ops::matmul::{Activations, Scratch};

/// Everything kept between nodes. None of it changes a result.
#[derive(Default)]
pub(super) struct Caches {
    pub(super) activations: SharedActivations,
    pub(super) matmul: Scratch,
    pub(super) rope: RopeTables,
    pub(super) attention: Workspaces,
}

/// The quantised form of the value that a matmul read last; the matmuls that follow on the same value share it.
#[derive(Default)]
pub(super) struct SharedActivations {
    quantised: Activations,
    of: Option<(Operand, ActivationPrecision)>,
}

impl SharedActivations {
    /// Says that `buffer` is about to be written.
    pub(super) fn buffer_written(&mut self, buffer: BufferId) {
        if matches!(self.of, Some((Operand { slot: Slot::Buffer { id, .. }, .. }, _)) if id == buffer) {
            self.of = None;
        }
    }

    /// The form of `source` with this precision, made by `quantise` unless it is there.
    pub(super) fn get_or_make<E>(
        &mut self,
        source: Operand,
        precision: ActivationPrecision,
        quantise: impl FnOnce(&mut Activations) -> Result<(), E>,
    ) -> Result<&Activations, E> {
        if self.of != Some((source, precision)) {
            self.of = None;
            quantise(&mut self.quantised)?;
            self.of = Some((source, precision));
        }
        Ok(&self.quantised)
    }
}
