//! The host's processor as a backend. It computes every op that is not a decode fusion of a device, and what
//! it computes does not depend on the number of threads or on which tokens go together.

mod attention;
mod caches;
mod device;
mod kernels;
mod kv;
mod launch;
mod memory;
mod ops;
mod parallel;
mod pool;
mod rope_table;
mod values;

use std::sync::Arc;

use caches::Caches;
use device::Device;
use kernels::Kernel;
use kv::KvRegions;
use launch::Launch;
use pool::Pool;

use crate::graph::{
    Backend, BackendError, BufferId, FusedOp, Fusion, KvShape, NodeCall, Op, OpKind, Slot, WeightRef,
};
use crate::tensor::{DType, TensorBytes, TensorMap};
use crate::threads::ThreadPool;
use crate::vec_ops::Isa;

/// The backend's name in messages.
const NAME: &str = "CPU";

/// What a [`CpuBackend`] works with.
pub struct CpuOptions {
    /// The weights that nodes name.
    pub weights: Arc<TensorMap>,
    /// The threads that share the work.
    pub pool: Arc<ThreadPool>,
    /// The instruction set; this machine has to run it.
    pub isa: Isa,
}

/// The host's processor.
pub struct CpuBackend {
    device: Device,
    buffers: Pool,
    kv: KvRegions,
    caches: Caches,
}

impl CpuBackend {
    /// A backend without buffers or KV regions.
    pub fn new(options: CpuOptions) -> CpuBackend {
        CpuBackend {
            device: Device::new(options.weights, options.pool, options.isa),
            buffers: Pool::new(NAME),
            kv: KvRegions::default(),
            caches: Caches::default(),
        }
    }

    /// The ops that the kernel table has, some under conditions on their payloads.
    pub fn ops() -> impl Iterator<Item = OpKind> {
        kernels::ops()
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports_op(&self, op: &Op, dtype: DType) -> bool {
        kernels::find(op, dtype).is_some()
    }

    fn supports_fused(&self, fused: FusedOp) -> bool {
        CpuBackend::ops().any(|op| op.fusion() == Fusion::ByPass(fused))
    }

    fn has_weight(&self, weight: &WeightRef) -> bool {
        let tensor = self.device.weights.get(&weight.name);
        tensor.is_some_and(|tensor| (tensor.dtype, tensor.shape) == (weight.dtype, weight.shape))
    }

    fn weights_bytes(&self) -> usize {
        let owned = self.device.weights.iter().map(|(_, tensor)| match &tensor.bytes {
            TensorBytes::Owned { len_bytes, .. } => *len_bytes,
            TensorBytes::Mapped { .. } => 0,
        });
        owned.sum()
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        self.buffers.alloc(bytes, pool::make)
    }

    fn free(&mut self, buffer: BufferId) {
        self.caches.activations.buffer_written(buffer);
        self.buffers.free(buffer);
    }

    fn pool_bytes(&self) -> usize {
        self.buffers.bytes()
    }

    fn write(&mut self, buffer: BufferId, offset_bytes: usize, bytes: &[u8]) -> Result<(), BackendError> {
        self.caches.activations.buffer_written(buffer);
        let memory = self.buffers.get_mut(buffer, offset_bytes, bytes.len())?;
        memory[offset_bytes..offset_bytes + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, buffer: BufferId, offset_bytes: usize, out: &mut [u8]) -> Result<(), BackendError> {
        let memory = self.buffers.get(buffer, offset_bytes, out.len())?;
        out.copy_from_slice(&memory[offset_bytes..offset_bytes + out.len()]);
        Ok(())
    }

    fn alloc_kv(&mut self, layer: u32, shape: KvShape) -> Result<(), BackendError> {
        self.kv.alloc(layer, shape)
    }

    fn copy_cells(&mut self, from: usize, to: usize, n: usize) -> Result<(), BackendError> {
        self.kv.copy_cells(from, to, n)
    }

    fn execute_node(&mut self, call: &NodeCall<'_>) -> Result<(), BackendError> {
        let kernel = kernel_for(call)?;
        call.check_shapes()?;
        let values = self.buffers.resolve(call)?;
        let (device, kv, caches) = (&self.device, &mut self.kv, &mut self.caches);
        if let (Slot::Buffer { id, .. }, true) = (call.out.slot, kernel.writes) {
            caches.activations.buffer_written(id);
        }
        (kernel.launch)(&mut Launch { call, device, values, kv, caches })
    }
}

fn kernel_for(call: &NodeCall<'_>) -> Result<&'static Kernel, BackendError> {
    kernels::find(&call.node.op, call.out.dtype).ok_or_else(|| {
        let (node, op) = (call.node.name.clone(), call.node.op.name());
        BackendError::NoKernel { node, op, backend: NAME }
    })
}
