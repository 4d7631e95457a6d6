//! A drill for deployments: a device that is lost in the middle of the work, on demand.
//!
//! Who runs a service wants to see beforehand what happens when a driver crashes. The drill gives the device
//! up after a number of splits, by the call that a driver's message would lead to, so that everything from
//! there on is what it would be.

use std::sync::Arc;
use std::time::Duration;

use crate::graph::{
    Backend, BackendError, BufferId, Device, FusedOp, KvShape, NodeCall, Op, OpKind, WeightRef, WorkCounts,
};
use crate::tensor::DType;

/// A backend whose device is given up after a number of splits.
pub(super) struct FaultDrill {
    inner: Box<dyn Backend>,
    device: Arc<dyn Device>,
    n_splits_left: u64,
}

impl FaultDrill {
    /// `inner`, a backend of `device`, for `n_splits` splits.
    pub(super) fn new(inner: Box<dyn Backend>, device: Arc<dyn Device>, n_splits: u64) -> FaultDrill {
        FaultDrill { inner, device, n_splits_left: n_splits }
    }
}

impl Backend for FaultDrill {
    fn submit(&mut self) -> Result<(), BackendError> {
        self.inner.submit()?;
        self.n_splits_left = self.n_splits_left.saturating_sub(1);
        if self.n_splits_left == 0 {
            self.device.destroy();
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn supports_op(&self, op: &Op, dtype: DType) -> bool {
        self.inner.supports_op(op, dtype)
    }

    fn supports_fused(&self, fused: FusedOp) -> bool {
        self.inner.supports_fused(fused)
    }

    fn has_weight(&self, weight: &WeightRef) -> bool {
        self.inner.has_weight(weight)
    }

    fn weights_bytes(&self) -> usize {
        self.inner.weights_bytes()
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        self.inner.alloc(bytes)
    }

    fn free(&mut self, buffer: BufferId) {
        self.inner.free(buffer);
    }

    fn pool_bytes(&self) -> usize {
        self.inner.pool_bytes()
    }

    fn write(&mut self, buffer: BufferId, offset_bytes: usize, bytes: &[u8]) -> Result<(), BackendError> {
        self.inner.write(buffer, offset_bytes, bytes)
    }

    fn read(&mut self, buffer: BufferId, offset_bytes: usize, out: &mut [u8]) -> Result<(), BackendError> {
        self.inner.read(buffer, offset_bytes, out)
    }

    fn alloc_kv(&mut self, layer: u32, shape: KvShape) -> Result<(), BackendError> {
        self.inner.alloc_kv(layer, shape)
    }

    fn copy_cells(&mut self, from: usize, to: usize, n: usize) -> Result<(), BackendError> {
        self.inner.copy_cells(from, to, n)
    }

    fn execute_node(&mut self, call: &NodeCall<'_>) -> Result<(), BackendError> {
        self.inner.execute_node(call)
    }

    fn counts(&self) -> WorkCounts {
        self.inner.counts()
    }

    fn measure(&mut self) -> bool {
        self.inner.measure()
    }

    fn take_times(&mut self) -> Result<Vec<(OpKind, Duration)>, BackendError> {
        self.inner.take_times()
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        self.inner.synchronize()
    }
}
