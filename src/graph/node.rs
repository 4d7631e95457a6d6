//! Nodes and the graph that lists them.

use std::fmt;
use std::sync::Arc;

use super::{GraphParams, Op};
use crate::tensor::{DType, Shape};

/// Position of a node in its graph's list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The position as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// Identity of a backend. Numbers are append-only; preference is another order, kept by the registry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BackendId(pub u8);

impl BackendId {
    /// The host's processor.
    pub const CPU: BackendId = BackendId(0);
    /// Apple's GPU interface.
    pub const METAL: BackendId = BackendId(1);
    /// NVIDIA's GPU interface.
    pub const CUDA: BackendId = BackendId(2);
    /// Khronos' GPU interface.
    pub const VULKAN: BackendId = BackendId(3);
}

/// Shape and element type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    /// Extents, fastest first.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
}

impl TensorSpec {
    /// An f32 value of `shape`.
    pub fn f32(shape: Shape) -> TensorSpec {
        TensorSpec { shape, dtype: DType::F32 }
    }

    /// An i32 value of `shape`.
    pub fn i32(shape: Shape) -> TensorSpec {
        TensorSpec { shape, dtype: DType::I32 }
    }
}

/// A weight that a node reads, by name; the backend resolves it when the node runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WeightRef {
    /// GGUF tensor name.
    pub name: Arc<str>,
    /// `[n_in, n_out]` for a matrix, `[n]` for a vector.
    pub shape: Shape,
    /// Element type in the file.
    pub dtype: DType,
}

/// What a node carries besides op and sources.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct NodeMeta {
    /// Weights in the order that the op documents.
    pub weights: Vec<WeightRef>,
}

/// One operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its place in the list.
    pub id: NodeId,
    /// A readable name such as `blk.3.attn_q`; unique within the graph.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// The nodes that it reads, all of them earlier in the list.
    pub src: Vec<NodeId>,
    /// Extents of its result.
    pub shape: Shape,
    /// Element type of its result.
    pub dtype: DType,
    /// The transformer block it belongs to; `None` for embedding, final norm and head.
    pub layer: Option<u32>,
    /// Who computes it; `None` until assignment.
    pub backend: Option<BackendId>,
    /// Weights.
    pub meta: NodeMeta,
}

impl Node {
    /// Shape and type of the result.
    pub fn spec(&self) -> TensorSpec {
        TensorSpec { shape: self.shape, dtype: self.dtype }
    }
}

/// A list of nodes in execution order, with the ones whose results are read by the caller.
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// All nodes; `nodes[i].id == NodeId(i)`.
    pub nodes: Vec<Node>,
    /// Nodes whose results the caller reads; never orphans.
    pub outputs: Vec<NodeId>,
    /// What the graph was built from.
    pub params: GraphParams,
}

impl Graph {
    /// The node `id`.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
}
