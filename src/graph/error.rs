//! What can go wrong between building a graph and running it.

use super::{BackendError, BackendId, Node, NodeId, OpError};
use crate::error::Hint;

/// The stage after which a rule is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The builder is done.
    Build,
    /// Every node has a backend.
    Assign,
    /// Fusion rules are applied.
    Fuse,
    /// Splits, copies and buffers are planned.
    Allocate,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stage::Build => "build",
            Stage::Assign => "assignment",
            Stage::Fuse => "fusion",
            Stage::Allocate => "allocation",
        })
    }
}

/// An error of the graph stages.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// The builder was given a node that breaks its op's rule.
    #[error("node {node} ({op}): {rule}")]
    Node {
        /// Name of the node.
        node: String,
        /// Name of the op.
        op: &'static str,
        /// The rule.
        rule: OpError,
    },
    /// A stage left a node behind that breaks a rule of the verifier.
    #[error("graph after {stage}: node {node} ({op}): {rule}")]
    Verify {
        /// The stage.
        stage: Stage,
        /// Name of the node.
        node: String,
        /// Name of the op.
        op: &'static str,
        /// The rule.
        rule: OpError,
    },
    /// The graph names an output that it does not have.
    #[error("graph output {output}: expected one of {n_nodes} nodes")]
    UnknownOutput {
        /// The output.
        output: NodeId,
        /// Nodes in the graph.
        n_nodes: usize,
    },
    /// No node has an effect: there is neither an output nor a node that writes keys and values.
    #[error("graph of {n_nodes} nodes: expected an output or a node that writes keys and values, got none")]
    NothingToRun {
        /// Nodes in the graph.
        n_nodes: usize,
    },
    /// A node is assigned to a backend that is not among the enabled ones.
    #[error("node {node} ({op}): backend: expected one of those enabled, got {backend}")]
    NodeBackendNotEnabled {
        /// Name of the node.
        node: String,
        /// Name of the op.
        op: &'static str,
        /// The backend.
        backend: BackendId,
    },
    /// A graph needs a backend that has left the set since it was compiled.
    #[error("{backend}: expected an enabled backend, got none with this id")]
    BackendNotEnabled {
        /// The backend.
        backend: BackendId,
    },
    /// The caller's data for an input has the wrong length.
    #[error("node {node} (Input): elements: expected {expected}, got {got}")]
    InputLength {
        /// Name of the node.
        node: &'static str,
        /// Elements of the node.
        expected: usize,
        /// Elements that the caller gave.
        got: usize,
    },
    /// The caller asks for an output that the graph does not have.
    #[error("output {index}: expected less than {n_outputs}")]
    NoOutput {
        /// What was asked for.
        index: usize,
        /// Outputs of the graph.
        n_outputs: usize,
    },
    /// A kernel refused; the message names the node.
    #[error(transparent)]
    Kernel(Box<BackendError>),
    /// A backend failed while it worked for a node.
    #[error("node {node} ({op}): {source}")]
    AtNode {
        /// Name of the node.
        node: String,
        /// Name of the op.
        op: &'static str,
        /// The backend.
        backend: BackendId,
        /// What it says.
        source: Box<BackendError>,
    },
    /// A backend could not give the memory that a graph needs.
    #[error("memory for a graph on {backend}: {source}")]
    Allocate {
        /// The backend.
        backend: BackendId,
        /// What it says.
        source: Box<BackendError>,
    },
    /// A backend failed outside of any node.
    #[error("{what} on {backend}: {source}")]
    Backend {
        /// What it was doing.
        what: &'static str,
        /// The backend.
        backend: BackendId,
        /// What it says.
        source: Box<BackendError>,
    },
    /// The graph does not fit into the memory budget. Nothing was allocated.
    #[error(
        "memory on {backend}: expected at most {:.1} MiB, got {:.1} MiB: weights {:.1}, keys and values {:.1}, \
         intermediate results {:.1}",
        mib(.budget_bytes), mib(&(.weights_bytes + .kv_bytes + .values_bytes)), mib(.weights_bytes), mib(.kv_bytes),
        mib(.values_bytes)
    )]
    Budget {
        /// The backend.
        backend: BackendId,
        /// What may be used.
        budget_bytes: usize,
        /// Weights in the backend's own memory.
        weights_bytes: usize,
        /// Key and value regions, with those of this graph.
        kv_bytes: usize,
        /// Intermediate results of all graphs alive, with this one.
        values_bytes: usize,
    },
    /// The keys and values of a layer already exist in another place or form.
    #[error("keys and values of layer {layer}: expected {expected}, got {got}")]
    KvChanged {
        /// The layer.
        layer: u32,
        /// What exists.
        expected: String,
        /// What the graph asks for.
        got: String,
    },
}

fn mib(bytes: &usize) -> f64 {
    *bytes as f64 / (1 << 20) as f64
}

impl GraphError {
    /// A backend could not give memory.
    pub(crate) fn allocate(backend: BackendId, source: BackendError) -> GraphError {
        GraphError::Allocate { backend, source: Box::new(source) }
    }

    /// A broken rule at `node` after `stage`.
    pub(crate) fn verify(
        stage: Stage,
        node: &Node,
        what: impl Into<String>,
        expected: impl ToString,
        got: impl ToString,
    ) -> GraphError {
        let rule = OpError::new(what, expected, got);
        GraphError::Verify { stage, node: node.name.clone(), op: node.op.name(), rule }
    }

    /// `source` while `backend` did `what`.
    pub(crate) fn on_backend(what: &'static str, backend: BackendId, source: BackendError) -> GraphError {
        GraphError::Backend { what, backend, source: Box::new(source) }
    }

    /// `source` while `backend` worked for `node`; the node is named once.
    pub(crate) fn at_node(node: &Node, backend: BackendId, source: BackendError) -> GraphError {
        let source = Box::new(source);
        match *source {
            BackendError::NoKernel { .. }
            | BackendError::Invariant { .. }
            | BackendError::MissingWeight { .. } => GraphError::Kernel(source),
            _ => GraphError::AtNode { node: node.name.clone(), op: node.op.name(), backend, source },
        }
    }
}

impl Hint for BackendError {
    fn hint(&self) -> Option<String> {
        match self {
            BackendError::DeviceLost { .. } => Some(
                "start again; should it happen often, `--backend cpu` does without the device".to_owned(),
            ),
            BackendError::OutOfMemory { .. } | BackendError::Exhausted { .. } => Some(
                "fewer layers on the device, or a smaller context or prefill batch, needs less".to_owned(),
            ),
            _ => None,
        }
    }
}

impl Hint for GraphError {
    fn hint(&self) -> Option<String> {
        match self {
            GraphError::Budget { backend, .. } if *backend == BackendId::CPU => {
                Some("a smaller context or prefill batch, or keys and values as f16 or q8_0, needs less".to_owned())
            }
            GraphError::Budget { .. } => Some(
                "fewer layers on the device, a smaller context or prefill batch, or keys and values as f16 or q8_0 needs less"
                    .to_owned(),
            ),
            GraphError::KvChanged { .. } => {
                Some("keys and values do not move: start a new context to change its settings".to_owned())
            }
            GraphError::AtNode { source, .. }
            | GraphError::Allocate { source, .. }
            | GraphError::Backend { source, .. } => source.hint(),
            _ => None,
        }
    }
}
