//! The verifier: what must hold after every stage.
//!
//! After the build and ever after:
//! - node `i` has id `i`; names are unique; sources are earlier nodes;
//! - shape and type of every node are what its op's rule gives;
//! - outputs exist, lie in buffers, and something runs;
//! - nothing aliases KV regions.
//!
//! After assignment:
//! - every node has a backend, and living nodes have an enabled one;
//! - all nodes that touch a layer's keys and values are on one backend.
//!
//! After fusion:
//! - every fused node is on a backend that claims the fusion.
//!
//! After allocation ([`memory`]):
//! - every kernel finds each source, and every reader each output, in the place where it was put, and no buffer is
//!   shared except by aliases and in-place results;
//! - every access lies within its buffer, which is on the backend that works on it.

mod memory;

use std::collections::HashSet;

pub(crate) use memory::memory;

use super::liveness::kv_layer;
use super::{BackendSet, Fusion, Graph, GraphError, Liveness, Node, NodeId, Role, Stage, Storage};

/// The rules of every stage that need the graph alone.
pub(crate) fn graph(graph: &Graph, stage: Stage) -> Result<(), GraphError> {
    let mut names = HashSet::with_capacity(graph.nodes.len());
    for (index, node) in graph.nodes.iter().enumerate() {
        if node.id.index() != index {
            return Err(GraphError::verify(stage, node, "id", NodeId(index as u32), node.id));
        }
        if !names.insert(node.name.as_str()) {
            return Err(GraphError::verify(stage, node, "name", "one that no other node has", &node.name));
        }
        sources(graph, node, stage)?;
        result(graph, node, stage)?;
    }
    outputs(graph, stage)
}

fn sources(graph: &Graph, node: &Node, stage: Stage) -> Result<(), GraphError> {
    for (index, &src) in node.src.iter().enumerate() {
        if src >= node.id {
            return Err(GraphError::verify(stage, node, format!("source {index}"), "an earlier node", src));
        }
    }
    if let Storage::Alias { src, .. } = node.op.storage()
        && let Some(&src) = node.src.get(src)
        && let Storage::Kv(layer) = graph.node(src).op.storage()
    {
        let got = format!("keys and values of layer {layer}");
        return Err(GraphError::verify(stage, node, "aliased source", "a value in a buffer", got));
    }
    Ok(())
}

fn result(graph: &Graph, node: &Node, stage: Stage) -> Result<(), GraphError> {
    let specs: Vec<_> = node.src.iter().map(|&src| graph.node(src).spec()).collect();
    let spec = node.op.infer(&specs, &node.meta.weights).map_err(|rule| GraphError::Verify {
        stage,
        node: node.name.clone(),
        op: node.op.name(),
        rule,
    })?;
    if spec.shape != node.shape {
        return Err(GraphError::verify(stage, node, "shape", spec.shape, node.shape));
    }
    if spec.dtype != node.dtype {
        return Err(GraphError::verify(stage, node, "type", spec.dtype, node.dtype));
    }
    Ok(())
}

fn outputs(graph: &Graph, stage: Stage) -> Result<(), GraphError> {
    let n_nodes = graph.nodes.len();
    for &output in &graph.outputs {
        let node = graph.nodes.get(output.index()).ok_or(GraphError::UnknownOutput { output, n_nodes })?;
        if let Storage::Kv(layer) = node.op.storage() {
            let got = format!("keys and values of layer {layer}");
            return Err(GraphError::verify(stage, node, "output", "a value in a buffer", got));
        }
    }
    if graph.outputs.is_empty() && !graph.nodes.iter().any(|node| node.op.kv_store().is_some()) {
        return Err(GraphError::NothingToRun { n_nodes });
    }
    Ok(())
}

/// The rules of assignment.
pub(crate) fn assigned(graph: &Graph, set: &BackendSet) -> Result<(), GraphError> {
    let live = Liveness::of(graph);
    let mut kv_backends = Vec::new();
    for node in &graph.nodes {
        let Some(backend) = node.backend else {
            return Err(GraphError::verify(Stage::Assign, node, "backend", "one", "none"));
        };
        if live.role(node.id) == Role::Orphan {
            continue;
        }
        if set.get(backend).is_none() {
            let (node, op) = (node.name.clone(), node.op.name());
            return Err(GraphError::NodeBackendNotEnabled { node, op, backend });
        }
        let Some(layer) = kv_layer(graph, node) else { continue };
        match kv_backends.iter().find(|(known, _)| *known == layer) {
            None => kv_backends.push((layer, backend)),
            Some(&(_, first)) if first != backend => {
                let what = format!("backend of the keys and values of layer {layer}");
                return Err(GraphError::verify(Stage::Assign, node, what, first, backend));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The rules of fusion.
pub(crate) fn fused(graph: &Graph, set: &BackendSet) -> Result<(), GraphError> {
    let live = Liveness::of(graph);
    for node in live.executed(graph) {
        let Some(backend) = node.backend.and_then(|id| set.get(id)) else { continue };
        let claimed = match node.op.fusion() {
            Fusion::None => true,
            Fusion::ByPass(fused) => backend.supports_fused(fused),
            Fusion::ByBuilder => backend.supports_op(&node.op, node.dtype),
        };
        if !claimed {
            let got = backend.name();
            return Err(GraphError::verify(Stage::Fuse, node, "backend", "one that claims this fusion", got));
        }
    }
    Ok(())
}
