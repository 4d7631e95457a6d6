//! The device's clock: a timestamp before and after every node, read back when someone asks.

use std::time::Duration;

use super::device::Gpu;
use crate::graph::{BackendError, OpKind};

/// Timestamps between two submissions at most; a limit of WebGPU.
const MAX_TIMESTAMPS: u32 = 4096;

/// Timestamps of the nodes that are being recorded, and times of those that are done.
pub(super) struct Clock {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    done: Vec<(OpKind, Duration)>,
    ops: Vec<OpKind>,
    n_written: u32,
}

const TIMESTAMP_BYTES: u64 = 8;

impl Clock {
    pub(super) fn new(gpu: &Gpu) -> Result<Clock, BackendError> {
        let queries = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("node times"),
            ty: wgpu::QueryType::Timestamp,
            count: MAX_TIMESTAMPS,
        });
        let bytes = MAX_TIMESTAMPS as usize * TIMESTAMP_BYTES as usize;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = gpu.create_buffer(bytes, usage, "node times")?;
        Ok(Clock { queries, resolved, done: Vec::new(), ops: Vec::new(), n_written: 0 })
    }

    /// No further node fits before the next submission.
    pub(super) fn is_full(&self) -> bool {
        self.n_written + 2 > MAX_TIMESTAMPS
    }

    /// Notes the time: before a node if `op` is given, else after it.
    pub(super) fn write(&mut self, pass: &mut wgpu::ComputePass<'_>, op: Option<OpKind>) {
        pass.write_timestamp(&self.queries, self.n_written);
        self.n_written += 1;
        self.ops.extend(op);
    }

    /// Appends the copy of what was noted, at the end of a command buffer.
    pub(super) fn resolve(&mut self, encoder: &mut wgpu::CommandEncoder) {
        if self.n_written > 0 {
            encoder.resolve_query_set(&self.queries, 0..self.n_written, &self.resolved, 0);
        }
    }

    /// Reads what was noted, after it was handed over.
    pub(super) fn collect(&mut self, gpu: &Gpu) -> Result<(), BackendError> {
        let (ops, n_written) = (std::mem::take(&mut self.ops), std::mem::take(&mut self.n_written));
        if n_written == 0 {
            return Ok(());
        }
        let mut bytes = vec![0; n_written as usize * TIMESTAMP_BYTES as usize];
        super::transfer::read(gpu, &self.resolved, 0, &mut bytes)?;
        let period = f64::from(gpu.queue.get_timestamp_period());
        let stamps: Vec<u64> = bytemuck::pod_collect_to_vec(&bytes);
        let time =
            |pair: &[u64]| Duration::from_nanos((pair[1].saturating_sub(pair[0]) as f64 * period) as u64);
        self.done.extend(ops.into_iter().zip(stamps.chunks_exact(2).map(time)));
        Ok(())
    }

    /// Takes the times collected so far.
    pub(super) fn take(&mut self) -> Vec<(OpKind, Duration)> {
        std::mem::take(&mut self.done)
    }
}
