//! The builder: an append-only list of nodes.
//!
//! It is pure: what it makes depends on the calls alone. The first error is kept; every later call is ignored and
//! `finish` returns it, so that code that builds a model reads like the model.

use std::collections::HashSet;

use super::{
    Graph, GraphError, GraphParams, Input, InputKind, Node, NodeId, NodeMeta, Op, OpError, Stage, TensorSpec,
    WeightRef, verify,
};
use crate::tensor::Shape;

/// What the builder returns for a node that it refused.
const REFUSED: NodeId = NodeId(u32::MAX);

/// Builds a [`Graph`] node by node.
pub struct GraphBuilder {
    graph: Graph,
    names: HashSet<String>,
    layer: Option<u32>,
    inputs: [Option<NodeId>; InputKind::ALL.len()],
    error: Option<GraphError>,
}

impl GraphBuilder {
    /// An empty graph for `params`.
    pub fn new(params: GraphParams) -> GraphBuilder {
        GraphBuilder {
            graph: Graph { nodes: Vec::new(), outputs: Vec::new(), params },
            names: HashSet::new(),
            layer: None,
            inputs: [None; InputKind::ALL.len()],
            error: None,
        }
    }

    /// What the graph is built from.
    pub fn params(&self) -> &GraphParams {
        &self.graph.params
    }

    /// The block that the next nodes belong to; `None` for embedding, final norm and head.
    pub fn set_layer(&mut self, layer: Option<u32>) {
        self.layer = layer;
    }

    /// Appends a node. Its shape comes from the op's rule.
    pub fn node(
        &mut self,
        name: impl Into<String>,
        op: impl Into<Op>,
        src: &[NodeId],
        weights: &[&WeightRef],
    ) -> NodeId {
        let layer = self.layer;
        self.append(name.into(), op.into(), src, weights, layer)
    }

    /// The node that holds `kind`; made at the first call, with the shape that the params give it. It belongs to no
    /// layer.
    pub fn input(&mut self, kind: InputKind) -> NodeId {
        if let Some(id) = self.inputs[kind as usize] {
            return id;
        }
        let op = Input { kind, shape: kind.shape(&self.graph.params) };
        let id = self.append(kind.name().to_owned(), op.into(), &[], &[], None);
        self.inputs[kind as usize] = Some(id);
        id
    }

    /// Shape and type of a node's result; one f32 for a node that was refused.
    pub fn spec(&self, id: NodeId) -> TensorSpec {
        self.graph.nodes.get(id.index()).map_or(TensorSpec::f32(Shape::d1(1)), Node::spec)
    }

    /// Marks a node as one whose result the caller reads. Marking it twice is one output.
    pub fn output(&mut self, id: NodeId) {
        if !self.graph.outputs.contains(&id) {
            self.graph.outputs.push(id);
        }
    }

    /// The graph, or the first error.
    pub fn finish(self) -> Result<Graph, GraphError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        verify::graph(&self.graph, Stage::Build)?;
        Ok(self.graph)
    }

    fn append(
        &mut self,
        name: String,
        op: Op,
        src: &[NodeId],
        weights: &[&WeightRef],
        layer: Option<u32>,
    ) -> NodeId {
        if self.error.is_some() {
            return REFUSED;
        }
        let meta = NodeMeta { weights: weights.iter().map(|&weight| weight.clone()).collect() };
        let spec = match self.checked_spec(&name, &op, src, &meta.weights) {
            Ok(spec) => spec,
            Err(rule) => {
                self.error = Some(GraphError::Node { node: name, op: op.name(), rule });
                return REFUSED;
            }
        };
        let id = NodeId(self.graph.nodes.len() as u32);
        self.names.insert(name.clone());
        let TensorSpec { shape, dtype } = spec;
        let src = src.to_vec();
        self.graph.nodes.push(Node { id, name, op, src, shape, dtype, layer, backend: None, meta });
        id
    }

    fn checked_spec(
        &self,
        name: &str,
        op: &Op,
        src: &[NodeId],
        weights: &[WeightRef],
    ) -> Result<TensorSpec, OpError> {
        if self.names.contains(name) {
            return Err(OpError::new("name", "one that no other node has", name));
        }
        let mut specs = Vec::with_capacity(src.len());
        for (index, &id) in src.iter().enumerate() {
            let source = self.graph.nodes.get(id.index());
            let missing = || OpError::new(format!("source {index}"), "an earlier node", id);
            specs.push(source.ok_or_else(missing)?.spec());
        }
        let spec = op.infer(&specs, weights)?;
        let n_elems = spec.shape.0.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        if n_elems.and_then(|n| spec.dtype.bytes_for(n)).is_none() {
            let expected = "whole blocks and a size that fits the address space";
            return Err(OpError::new("result", expected, spec.shape));
        }
        Ok(spec)
    }
}
