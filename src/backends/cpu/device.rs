//! The processor: worker threads, the kernels of its instruction set, and the weights in its memory.

use std::sync::Arc;

use crate::tensor::TensorMap;
use crate::threads::ThreadPool;
use crate::vec_ops::attention::AttentionKernels;
use crate::vec_ops::rows::RowKernels;
use crate::vec_ops::{Isa, attention, matmul, rows};

/// What all nodes share and none changes.
pub(super) struct Device {
    pub(super) weights: Arc<TensorMap>,
    pub(super) pool: Arc<ThreadPool>,
    pub(super) rows: &'static RowKernels,
    pub(super) attention: &'static AttentionKernels,
    pub(super) matmul: &'static matmul::Table,
}

impl Device {
    pub(super) fn new(weights: Arc<TensorMap>, pool: Arc<ThreadPool>, isa: Isa) -> Device {
        Device {
            weights,
            pool,
            rows: rows::table(isa),
            attention: attention::table(isa),
            matmul: matmul::table(isa),
        }
    }
}
