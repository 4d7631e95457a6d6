//! The null backend: computes nothing, counts everything. It is what planner tests run on.
//!
//! It claims what a test tells it to claim, hands out numbered buffers without memory behind them, and
//! refuses every call that a correct plan cannot make: a buffer that is not in use, an access beyond its end,
//! a result shorter than its shape, keys and values of a layer that has none, an op that it did not claim.

mod claims;
mod counters;
mod pool;

use std::collections::HashMap;
use std::sync::Arc;

pub use claims::Claims;
pub use counters::Counters;
use pool::Pool;

use crate::graph::{
    Backend, BackendError, BufferId, FusedOp, KvShape, NodeCall, Op, OpKind, Operand, Slot, WeightRef,
};
use crate::tensor::DType;

/// A backend that only keeps books.
pub struct NullBackend {
    claims: Claims,
    counters: Arc<Counters>,
    pool: Pool,
    kv: HashMap<u32, KvShape>,
}

impl NullBackend {
    /// A backend with these claims.
    pub fn new(claims: Claims) -> NullBackend {
        NullBackend { claims, counters: Arc::default(), pool: Pool::default(), kv: HashMap::new() }
    }

    /// The backend's books, which stay readable when the backend is in a set.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    fn check_operand(
        &self,
        call: &NodeCall<'_>,
        what: &'static str,
        operand: &Operand,
    ) -> Result<(), BackendError> {
        match operand.slot {
            Slot::Buffer { id, offset_bytes } => {
                let bytes = operand.dtype.bytes_for(operand.shape.n_elems());
                let bytes = bytes.ok_or_else(|| call.broken(what, "whole blocks", operand.shape))?;
                self.pool.check(id, offset_bytes, bytes)
            }
            Slot::Kv { layer } if self.kv.contains_key(&layer) => Ok(()),
            Slot::Kv { layer } => Err(call.broken(what, format!("keys and values of layer {layer}"), "none")),
        }
    }
}

impl Backend for NullBackend {
    fn name(&self) -> &'static str {
        self.claims.name
    }

    fn supports_op(&self, op: &Op, dtype: DType) -> bool {
        let computes = dtype == DType::F32 || op.kind() == OpKind::Input || op.kv_store().is_some();
        (computes || op.kind() == OpKind::KvcacheLoad) && self.claims.has_op(op.kind())
    }

    fn supports_fused(&self, fused: FusedOp) -> bool {
        self.claims.has_fused(fused)
    }

    fn has_weight(&self, weight: &WeightRef) -> bool {
        self.claims.has_weight(&weight.name)
    }

    fn weights_bytes(&self) -> usize {
        self.claims.weights_bytes
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        let (buffer, is_new) = self.pool.alloc(bytes);
        self.counters.count(if is_new { &self.counters.n_new } else { &self.counters.n_reused });
        Ok(buffer)
    }

    fn free(&mut self, buffer: BufferId) {
        self.pool.free(buffer);
        self.counters.count(&self.counters.n_freed);
    }

    fn pool_bytes(&self) -> usize {
        self.pool.bytes()
    }

    fn write(&mut self, buffer: BufferId, offset_bytes: usize, bytes: &[u8]) -> Result<(), BackendError> {
        self.pool.check(buffer, offset_bytes, bytes.len())?;
        self.counters.count(&self.counters.n_writes);
        Ok(())
    }

    fn read(&mut self, buffer: BufferId, offset_bytes: usize, out: &mut [u8]) -> Result<(), BackendError> {
        self.pool.check(buffer, offset_bytes, out.len())?;
        out.fill(0);
        self.counters.count(&self.counters.n_reads);
        Ok(())
    }

    fn alloc_kv(&mut self, layer: u32, shape: KvShape) -> Result<(), BackendError> {
        self.kv.insert(layer, shape);
        self.counters.count(&self.counters.n_kv);
        Ok(())
    }

    fn copy_cells(&mut self, _from: usize, _to: usize, _n: usize) -> Result<(), BackendError> {
        Ok(())
    }

    fn execute_node(&mut self, call: &NodeCall<'_>) -> Result<(), BackendError> {
        let node = call.node;
        if !self.supports_op(&node.op, node.dtype) {
            let (node, op) = (node.name.clone(), node.op.name());
            return Err(BackendError::NoKernel { node, op, backend: self.claims.name });
        }
        if let Some(weight) = node.meta.weights.iter().find(|weight| !self.has_weight(weight)) {
            let (node, weight) = (node.name.clone(), weight.name.to_string());
            return Err(BackendError::MissingWeight { node, weight, backend: self.claims.name });
        }
        for operand in call.srcs {
            self.check_operand(call, "source", operand)?;
        }
        self.check_operand(call, "result", &call.out)?;
        self.counters.executed(&node.name);
        Ok(())
    }
}
