//! GPUs through Vulkan and Metal, from one set of kernels, by way of wgpu.
//!
//! Nodes are recorded, one command buffer per split, and handed over at the split's end; a long prompt goes
//! in pieces, which no driver takes for a hang. A device is opened once and shared by the process, with its
//! compiled kernels; a model's weights lie on it in the file's own blocks, shared by the model's contexts;
//! each context has its own buffers and KV regions.

mod blocks;
mod clock;
mod device;
mod kernels;
mod kv;
mod launch;
mod ops;
mod pipelines;
mod pool;
mod record;
mod scratch;
mod tables;
mod transfer;
mod weights;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use device::{Api, Gpu};
use kv::KvRegions;
use launch::Launch;
use pool::Pool;
use record::Recorder;
use scratch::Scratch;
use tables::Tables;
use weights::Weights;

use crate::graph::{
    Backend, BackendError, BufferId, BuiltBackend, Device, DeviceInfo, FusedOp, KnownBackend, KvShape,
    NodeCall, Op, OpKind, WeightRef, WorkCounts,
};
use crate::tensor::{DType, TensorMap};
use crate::threads::lock;

/// Metal on Apple's systems, Vulkan everywhere else.
pub(super) const BUILTIN: BuiltBackend = BuiltBackend {
    known: match Api::HERE {
        Api::Metal => KnownBackend::METAL,
        Api::Vulkan => KnownBackend::VULKAN,
    },
    is_likely: || device::is_likely(Api::HERE),
    availability: || device::availability(Api::HERE),
    open: Some(|| Ok(Arc::new(GpuDevice { gpu: Gpu::shared(Api::HERE)?, weights: Mutex::default() }))),
};

/// The ops that the kernel table has, some under conditions on their payloads.
pub fn ops() -> impl Iterator<Item = OpKind> {
    kernels::kinds()
}

/// A GPU with the weights of one model.
struct GpuDevice {
    gpu: Arc<Gpu>,
    weights: Mutex<Weights>,
}

/// A context's share of a GPU.
struct GpuBackend {
    device: Arc<GpuDevice>,
    gpu: Arc<Gpu>,
    pool: Pool,
    kv: KvRegions,
    tables: Tables,
    scratch: Scratch,
    recorder: Recorder,
}

impl Device for GpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.gpu.info
    }

    fn upload(
        &self,
        weights: &TensorMap,
        names: &BTreeSet<String>,
        groups: &[Vec<String>],
    ) -> Result<(), BackendError> {
        lock(&self.weights).upload(&self.gpu, weights, names, groups)
    }

    fn weights_bytes(&self) -> usize {
        lock(&self.weights).bytes()
    }

    fn destroy(&self) {
        self.gpu.destroy();
    }

    fn backend(self: Arc<Self>) -> Result<Box<dyn Backend>, BackendError> {
        self.gpu.check("starting a context")?;
        Ok(Box::new(GpuBackend {
            gpu: Arc::clone(&self.gpu),
            pool: Pool::new(self.gpu.label()),
            device: self,
            kv: KvRegions::default(),
            tables: Tables::default(),
            scratch: Scratch::default(),
            recorder: Recorder::default(),
        }))
    }
}

impl GpuBackend {
    /// Writes of the queue come before everything handed over later, so what was recorded goes first.
    fn flush_before_write(&mut self) -> Result<(), BackendError> {
        if self.recorder.is_empty() { Ok(()) } else { self.submit() }
    }
}

impl Backend for GpuBackend {
    fn name(&self) -> &'static str {
        self.gpu.label()
    }

    fn supports_op(&self, op: &Op, dtype: DType) -> bool {
        kernels::find(op, dtype).is_some()
    }

    fn supports_fused(&self, fused: FusedOp) -> bool {
        let kind = match fused {
            FusedOp::SwiGLU => OpKind::SwiGLU,
            FusedOp::MatMulAdd => OpKind::MatMulAdd,
        };
        kernels::kinds().any(|known| known == kind)
    }

    fn has_weight(&self, weight: &WeightRef) -> bool {
        lock(&self.device.weights).get(weight).is_some()
    }

    fn weights_bytes(&self) -> usize {
        lock(&self.device.weights).bytes()
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        self.pool.alloc(bytes, |bytes| pool::make(&self.gpu, bytes))
    }

    fn free(&mut self, buffer: BufferId) {
        self.pool.free(buffer);
    }

    fn pool_bytes(&self) -> usize {
        self.pool.bytes() + self.scratch.bytes()
    }

    fn write(&mut self, buffer: BufferId, offset_bytes: usize, bytes: &[u8]) -> Result<(), BackendError> {
        self.flush_before_write()?;
        let buffer = self.pool.get(buffer, offset_bytes, bytes.len())?;
        self.gpu.queue.write_buffer(buffer, offset_bytes as u64, bytes);
        self.recorder.counts.uploaded_bytes += bytes.len() as u64;
        self.gpu.check("writing to the device")
    }

    fn read(&mut self, buffer: BufferId, offset_bytes: usize, out: &mut [u8]) -> Result<(), BackendError> {
        self.submit()?;
        let buffer = self.pool.get(buffer, offset_bytes, out.len())?;
        transfer::read(&self.gpu, buffer, offset_bytes, out)?;
        self.recorder.counts.downloaded_bytes += out.len() as u64;
        Ok(())
    }

    fn alloc_kv(&mut self, layer: u32, shape: KvShape) -> Result<(), BackendError> {
        self.kv.alloc(&self.gpu, layer, shape)
    }

    fn copy_cells(&mut self, from: usize, to: usize, n: usize) -> Result<(), BackendError> {
        let (gpu, size) = (Arc::clone(&self.gpu), self.kv.n_cells());
        let offset = from.max(to);
        if offset.checked_add(n).is_none_or(|end| end > size) {
            return Err(BackendError::OutOfRange { backend: gpu.label(), buffer: 0, offset, len: n, size });
        }
        for layer in self.kv.layers() {
            for (region, row_elems) in
                [(&layer.keys, layer.shape.k_row_elems), (&layer.values, layer.shape.v_row_elems)]
            {
                for plane in kv::planes(&layer.shape, row_elems) {
                    let at = |cell: usize| plane.start_bytes + cell * plane.cell_bytes;
                    let bytes = n * plane.cell_bytes;
                    // A buffer cannot be copied onto itself, and the ranges may overlap.
                    let scratch = gpu.create_buffer(bytes, pool::USAGE, "rows on their way")?;
                    self.recorder.copy(&gpu, (region, at(from)), (&scratch, 0), bytes);
                    self.recorder.copy(&gpu, (&scratch, 0), (region, at(to)), bytes);
                }
            }
        }
        Ok(())
    }

    fn execute_node(&mut self, call: &NodeCall<'_>) -> Result<(), BackendError> {
        let kind = call.node.op.kind();
        let Some(kernel) = kernels::find(&call.node.op, call.out.dtype) else {
            let (node, op) = (call.node.name.clone(), call.node.op.name());
            return Err(BackendError::NoKernel { node, op, backend: self.gpu.label() });
        };
        call.check_shapes()?;
        self.recorder.node_start(&self.gpu, kind)?;
        let GpuBackend { device, gpu, pool, kv, tables, scratch, recorder } = self;
        let weights = &device.weights;
        let launched =
            (kernel.launch)(&mut Launch { call, gpu, weights, pool, kv, tables, scratch, recorder });
        // Timestamps come in pairs, also where a launch failed.
        self.recorder.node_end(&self.gpu);
        launched?;
        self.recorder.submit_if_much(&self.gpu)
    }

    fn submit(&mut self) -> Result<(), BackendError> {
        self.recorder.submit(&self.gpu)
    }

    fn counts(&self) -> WorkCounts {
        self.recorder.counts
    }

    fn measure(&mut self) -> bool {
        self.gpu.has_timestamps && self.recorder.measure(&self.gpu).is_ok()
    }

    fn take_times(&mut self) -> Result<Vec<(OpKind, Duration)>, BackendError> {
        self.recorder.take_times(&self.gpu)
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        self.submit()?;
        self.gpu.wait()
    }
}
