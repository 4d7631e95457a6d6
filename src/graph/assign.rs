//! Assignment: every node gets the backend that computes it, once, before anything is allocated.
//!
//! A node keeps a backend that was set explicitly. Otherwise each node is asked on its own, so that the result does
//! not depend on any order of visits: the first backend in priority order that is enabled, not fenced off, has the
//! node's block in the offload plan, holds its weights and has the kernel; otherwise the CPU. If the CPU lacks the
//! kernel too, running the graph is an error that names the node.
//!
//! Two kinds of nodes are not asked alone. An alias goes where its source lies, as nothing runs for it. The nodes
//! that touch a layer's keys and values stay together: where one of them is set explicitly, and on the CPU if no device
//! takes them all. Inputs are asked like any other node, so that they lie on the device when everything does.

use std::collections::BTreeMap;

use super::liveness::kv_layer;
use super::{BackendId, BackendSet, BuildQuery, Graph, Node, Op, Registry, Storage, WeightRef};
use crate::tensor::DType;

/// What assignment follows besides the backends' own answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Backends, most preferred first.
    pub order: Vec<BackendId>,
    /// Bit `id` is set if backend `id` may be used; the CPU's bit does not matter.
    pub fence: u32,
    /// Blocks `0..gpu_layers` go to a device; what belongs to no block follows only if all blocks do.
    pub gpu_layers: usize,
    /// Blocks of the model.
    pub n_layer: usize,
}

impl Policy {
    /// The registry's order with a fence that it made.
    pub fn new(registry: &Registry, fence: u32, gpu_layers: usize, n_layer: usize) -> Policy {
        Policy { order: registry.by_priority(), fence, gpu_layers, n_layer }
    }

    /// Everything on the CPU.
    pub fn cpu_only(n_layer: usize) -> Policy {
        Policy { order: vec![BackendId::CPU], fence: BackendId::CPU.bit(), gpu_layers: 0, n_layer }
    }

    /// Whether the offload plan has what belongs to `layer` on a device.
    pub fn offloads(&self, layer: Option<u32>) -> bool {
        match layer {
            Some(layer) => (layer as usize) < self.gpu_layers,
            None => self.gpu_layers > 0 && self.gpu_layers >= self.n_layer,
        }
    }
}

/// Gives every node a backend.
pub fn assign(graph: &mut Graph, set: &BackendSet, policy: &Policy) {
    let explicit: Vec<Option<BackendId>> = graph.nodes.iter().map(|node| node.backend).collect();
    for node in graph.nodes.iter_mut().filter(|node| node.backend.is_none()) {
        if !matches!(node.op.storage(), Storage::Alias { .. }) {
            node.backend = Some(backend_of(node, set, policy));
        }
    }
    keep_kv_together(graph, &explicit);
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        if let (None, Storage::Alias { src, .. }) = (node.backend, node.op.storage()) {
            graph.nodes[index].backend = graph.node(node.src[src]).backend;
        }
    }
}

fn backend_of(node: &Node, set: &BackendSet, policy: &Policy) -> BackendId {
    device_for(set, policy, node.layer, &node.op, node.dtype, node.meta.weights.iter())
        .unwrap_or(BackendId::CPU)
}

/// The most preferred device that takes an op with a result of type `dtype`, if any does.
fn device_for<'a>(
    set: &BackendSet,
    policy: &Policy,
    layer: Option<u32>,
    op: &Op,
    dtype: DType,
    weights: impl Iterator<Item = &'a WeightRef> + Clone,
) -> Option<BackendId> {
    if !policy.offloads(layer) {
        return None;
    }
    let allowed =
        policy.order.iter().copied().filter(|id| *id != BackendId::CPU && policy.fence & id.bit() != 0);
    allowed.into_iter().find(|&id| {
        set.get(id).is_some_and(|backend| {
            backend.supports_op(op, dtype) && weights.clone().all(|weight| backend.has_weight(weight))
        })
    })
}

/// Gathers the nodes that touch a layer's keys and values on one backend: the one that was set explicitly for any of
/// them, else the one they agree on, else the CPU. Explicit settings that disagree are left for the verifier.
fn keep_kv_together(graph: &mut Graph, explicit: &[Option<BackendId>]) {
    let mut layers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for node in &graph.nodes {
        if let Some(layer) = kv_layer(graph, node) {
            layers.entry(layer).or_default().push(node.id.index());
        }
    }
    for members in layers.values() {
        let set_explicitly = members.iter().find_map(|&index| explicit[index]);
        let first = graph.nodes[members[0]].backend;
        let agreed = first.filter(|_| members.iter().all(|&index| graph.nodes[index].backend == first));
        let home = set_explicitly.or(agreed).unwrap_or(BackendId::CPU);
        for &index in members {
            graph.nodes[index].backend = Some(explicit[index].unwrap_or(home));
        }
    }
}

/// Answers the builder's question by the rules of assignment.
pub struct AssignQuery<'a> {
    /// Enabled backends.
    pub set: &'a BackendSet,
    /// What assignment will follow.
    pub policy: &'a Policy,
}

impl BuildQuery for AssignQuery<'_> {
    fn device_for(&self, layer: Option<u32>, op: &Op, weights: &[&WeightRef]) -> Option<BackendId> {
        device_for(self.set, self.policy, layer, op, DType::F32, weights.iter().copied())
    }
}
