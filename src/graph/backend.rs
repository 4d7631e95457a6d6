//! The contract that every execution engine fulfils.

use std::time::Duration;

use super::{FusedOp, KvShape, Node, Op, OpError, OpKind, TensorSpec, WeightRef};
use crate::tensor::{DType, Shape};

/// A buffer of one backend's pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u32);

/// Where a value lies on its backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// A pool buffer, from a byte offset on.
    Buffer {
        /// The buffer.
        id: BufferId,
        /// Where the value starts, in bytes.
        offset_bytes: usize,
    },
    /// The persistent key and value regions of a layer.
    Kv {
        /// The layer.
        layer: u32,
    },
}

/// A value as a kernel sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Where it lies.
    pub slot: Slot,
    /// Logical extents; the buffer may be longer.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
}

/// One node with all its values resolved.
#[derive(Clone, Copy, Debug)]
pub struct NodeCall<'a> {
    /// The node: op, name, weights.
    pub node: &'a Node,
    /// Its sources in order, on this backend.
    pub srcs: &'a [Operand],
    /// Its result. In-place nodes share the slot of a source.
    pub out: Operand,
}

/// Sources that a node can have at most.
pub(crate) const MAX_SOURCES: usize = 5;

impl NodeCall<'_> {
    /// A violated precondition of this node.
    pub(crate) fn broken(
        &self,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> BackendError {
        let (node, op) = (self.node.name.clone(), self.node.op.name());
        BackendError::Invariant { node, op, what, expected: expected.to_string(), got: got.to_string() }
    }

    /// Sources, weights and result obey the op's shape rule, so launchers need not check them again.
    pub(crate) fn check_shapes(&self) -> Result<(), BackendError> {
        let spec = |operand: &Operand| TensorSpec { shape: operand.shape, dtype: operand.dtype };
        let out = spec(&self.out);
        let mut specs = [out; MAX_SOURCES];
        if self.srcs.len() > MAX_SOURCES {
            return Err(self.broken("number of sources", format!("at most {MAX_SOURCES}"), self.srcs.len()));
        }
        for (to, operand) in specs.iter_mut().zip(self.srcs) {
            *to = spec(operand);
        }
        let result = self.node.op.infer(&specs[..self.srcs.len()], &self.node.meta.weights);
        let result = result.map_err(|OpError { what, expected, got }| {
            self.broken("shapes", format!("{what} {expected}"), got)
        })?;
        let show = |spec: TensorSpec| format!("{} {}", spec.dtype, spec.shape);
        match result == out {
            true => Ok(()),
            false => Err(self.broken("result", show(result), show(out))),
        }
    }
}

/// What can go wrong on a backend.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The backend's table has no kernel for the node: assignment went wrong.
    #[error("node {node} ({op}): backend {backend} has no kernel for it")]
    NoKernel {
        /// Name of the node.
        node: String,
        /// Name of the op.
        op: &'static str,
        /// Name of the backend.
        backend: &'static str,
    },
    /// A kernel's precondition does not hold.
    #[error("node {node} ({op}): {what}: expected {expected}, got {got}")]
    Invariant {
        /// Name of the node.
        node: String,
        /// Name of the op.
        op: &'static str,
        /// The thing that is wrong.
        what: &'static str,
        /// What the kernel needs.
        expected: String,
        /// What it was given.
        got: String,
    },
    /// A node names a weight that is not resident.
    #[error("node {node}: weight {weight} is not resident on backend {backend}")]
    MissingWeight {
        /// Name of the node.
        node: String,
        /// Name of the weight.
        weight: String,
        /// Name of the backend.
        backend: &'static str,
    },
    /// Memory ran out.
    #[error("backend {backend}: cannot allocate {bytes} bytes for {what}")]
    OutOfMemory {
        /// Name of the backend.
        backend: &'static str,
        /// Size of the request.
        bytes: usize,
        /// What it was for.
        what: &'static str,
    },
    /// The driver ran out of memory, and does not say over how much.
    #[error("backend {backend}: out of memory: {what}: {reason}")]
    Exhausted {
        /// Name of the backend.
        backend: &'static str,
        /// What was tried.
        what: String,
        /// What the driver said.
        reason: String,
    },
    /// The device is gone; everything on it is lost.
    #[error("backend {backend}: the device was lost: {reason}")]
    DeviceLost {
        /// Name of the backend.
        backend: &'static str,
        /// What the driver said.
        reason: String,
    },
    /// The driver refused something.
    #[error("backend {backend}: {what}: {reason}")]
    Driver {
        /// Name of the backend.
        backend: &'static str,
        /// What was tried.
        what: String,
        /// What the driver said.
        reason: String,
    },
    /// A buffer, offset or length that the pool does not know.
    #[error(
        "backend {backend}: buffer {buffer}: expected an access within its {size} bytes, got {len} bytes at {offset}"
    )]
    OutOfRange {
        /// Name of the backend.
        backend: &'static str,
        /// Number of the buffer.
        buffer: u32,
        /// Start of the access in bytes.
        offset: usize,
        /// Length of the access in bytes.
        len: usize,
        /// Size of the buffer in bytes; 0 if there is no such buffer.
        size: usize,
    },
}

/// Exact counts of what a backend did since it was made. They do not depend on the machine's speed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WorkCounts {
    /// Kernels handed to the device.
    pub dispatches: u64,
    /// Times that recorded work was handed over.
    pub submissions: u64,
    /// Bytes of weights that these kernels read.
    pub weights_read_bytes: u64,
    /// Bytes copied from the host.
    pub uploaded_bytes: u64,
    /// Bytes copied to the host.
    pub downloaded_bytes: u64,
}

impl WorkCounts {
    /// What was done after `earlier`, counts of the same backend.
    pub fn since(self, earlier: WorkCounts) -> WorkCounts {
        WorkCounts {
            dispatches: self.dispatches - earlier.dispatches,
            submissions: self.submissions - earlier.submissions,
            weights_read_bytes: self.weights_read_bytes - earlier.weights_read_bytes,
            uploaded_bytes: self.uploaded_bytes - earlier.uploaded_bytes,
            downloaded_bytes: self.downloaded_bytes - earlier.downloaded_bytes,
        }
    }
}

/// An execution engine: a buffer pool, KV regions, a table of kernels, resident weights.
///
/// A backend's identity, names and priority live in the registry. Nothing here falls back: a call that the
/// backend cannot do is an error that names the node.
pub trait Backend: Send {
    /// The backend's name for messages.
    fn name(&self) -> &'static str;

    /// Whether the kernel table has an entry for this op with this result type: a look-up, never a second
    /// list.
    fn supports_op(&self, op: &Op, dtype: DType) -> bool;

    /// Whether the fusion pass may produce `fused` for nodes of this backend.
    fn supports_fused(&self, fused: FusedOp) -> bool;

    /// Whether a weight can be read by this backend's kernels.
    fn has_weight(&self, weight: &WeightRef) -> bool;

    /// Bytes of the weights held in this backend's own memory.
    fn weights_bytes(&self) -> usize {
        0
    }

    /// Takes a buffer of at least `bytes` from the pool. Its contents are undefined.
    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError>;

    /// Gives a buffer back to the pool.
    fn free(&mut self, buffer: BufferId);

    /// Bytes that the pool holds, used and spare.
    fn pool_bytes(&self) -> usize;

    /// Copies `bytes` from the host into `buffer`.
    fn write(&mut self, buffer: BufferId, offset_bytes: usize, bytes: &[u8]) -> Result<(), BackendError>;

    /// Copies from `buffer` to the host, after all work that was enqueued before.
    fn read(&mut self, buffer: BufferId, offset_bytes: usize, out: &mut [u8]) -> Result<(), BackendError>;

    /// Allocates the two KV regions of `layer`, zeroed.
    fn alloc_kv(&mut self, layer: u32, shape: KvShape) -> Result<(), BackendError>;

    /// Copies whole KV rows `from..from + n` to `to..to + n` in every layer's regions (copy-on-write of
    /// pages).
    fn copy_cells(&mut self, from: usize, to: usize, n: usize) -> Result<(), BackendError>;

    /// Runs or enqueues one node.
    fn execute_node(&mut self, call: &NodeCall<'_>) -> Result<(), BackendError>;

    /// Hands recorded work to the device, without waiting for it. The executor calls this at the end of every
    /// split.
    fn submit(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// What was done so far; all zero for a backend that does not count.
    fn counts(&self) -> WorkCounts {
        WorkCounts::default()
    }

    /// Measures the time of every node on the device from now on. False if the device has no clock that can
    /// be read.
    fn measure(&mut self) -> bool {
        false
    }

    /// Takes the times measured since the last call, in order of execution. Waits for the device.
    fn take_times(&mut self) -> Result<Vec<(OpKind, Duration)>, BackendError> {
        Ok(Vec::new())
    }

    /// Waits until all enqueued work is done.
    fn synchronize(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}
