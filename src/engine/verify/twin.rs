//! A twin of the reference: a backend that repeats every node that the reference runs, on the same sources.
//!
//! The twin keeps its own regions of keys and values. They are filled by its own kernels, but from the
//! sources that the reference had; so a difference that a store makes shows in the attention that reads it,
//! and goes no further.

use std::collections::{BTreeMap, BTreeSet};

use super::{Difference, NodeClass, NodeFailure, OpReport, Skipped};
use crate::graph::{
    Backend, BackendError, BackendId, BufferId, GraphError, KvFormat, Node, NodeCall, NodeSources, NodeValue,
    Observer, Operand, Slot, Storage,
};
use crate::tensor::DType;

/// The backend under test, and what was found.
pub(super) struct Twin {
    id: BackendId,
    backend: Box<dyn Backend>,
    kv_format: KvFormat,
    /// Layers whose regions the twin has filled.
    layers: BTreeSet<u32>,
    /// The sources of the node that runs next; `None` if the twin does not repeat it.
    sources: Option<Vec<Source>>,
    /// What the reference is doing, for messages.
    pub(super) step: String,
    pub(super) ops: Vec<OpReport>,
    pub(super) skipped: BTreeMap<Skipped, usize>,
    pub(super) failure: Option<NodeFailure>,
    error: Option<GraphError>,
}

/// A source of a node on the reference, and its bytes unless it lies in KV regions.
struct Source {
    operand: Operand,
    bytes: Option<Vec<u8>>,
}

impl Twin {
    pub(super) fn new(id: BackendId, backend: Box<dyn Backend>, kv_format: KvFormat) -> Twin {
        Twin {
            id,
            backend,
            kv_format,
            layers: BTreeSet::new(),
            sources: None,
            step: String::new(),
            ops: Vec::new(),
            skipped: BTreeMap::new(),
            failure: None,
            error: None,
        }
    }

    /// The error that ended the comparison, if one did.
    pub(super) fn take_error(&mut self) -> Option<GraphError> {
        self.error.take()
    }

    /// Why the twin cannot repeat `node`, if so.
    fn obstacle(&self, node: &Node, sources: &[Operand]) -> Option<String> {
        if !self.backend.supports_op(&node.op, node.dtype) {
            return Some("no kernel".to_string());
        }
        if node.meta.weights.iter().any(|weight| !self.backend.has_weight(weight)) {
            return Some("weights are not on the device".to_string());
        }
        let is_filled = |source: &Operand| match source.slot {
            Slot::Kv { layer } => self.layers.contains(&layer),
            Slot::Buffer { .. } => true,
        };
        (!sources.iter().all(is_filled)).then(|| "keys and values are not on the device".to_string())
    }

    fn read_sources(&mut self, node: &Node, sources: &mut NodeSources<'_>) -> Result<(), BackendError> {
        self.sources = None;
        let operands = sources.operands();
        if let Some(reason) = self.obstacle(node, operands) {
            *self.skipped.entry(Skipped { op: node.op.kind(), reason }).or_default() += 1;
            return Ok(());
        }
        let mut read = Vec::with_capacity(operands.len());
        for (index, &operand) in operands.iter().enumerate() {
            let mut bytes = Vec::new();
            let is_there = sources.read(index, &mut bytes)?;
            read.push(Source { operand, bytes: is_there.then_some(bytes) });
        }
        self.sources = Some(read);
        Ok(())
    }

    /// Runs `node` on the twin and compares its result with the reference's.
    fn repeat(&mut self, node: &Node, value: &mut NodeValue<'_>) -> Result<(), BackendError> {
        let Some(sources) = self.sources.take() else { return Ok(()) };
        if let (Some(store), Storage::Kv(layer)) = (node.op.kv_store(), node.op.storage())
            && self.layers.insert(layer)
        {
            self.backend.alloc_kv(layer, store.kv)?;
        }
        let mut buffers = Vec::new();
        let got = self.run(node, &sources, *value.operand(), &mut buffers);
        buffers.into_iter().for_each(|buffer| self.backend.free(buffer));
        let got = got?;
        let mut expected = Vec::new();
        let difference = match value.read_f32(&mut expected)? {
            true => Difference::between(&expected, &got, node.shape.row_len()),
            false => Difference::default(),
        };
        self.note(node, difference);
        Ok(())
    }

    /// Writes the sources into buffers of the twin, runs the node and reads its result; empty if it lies in
    /// KV regions. An in-place node is one here too.
    fn run(
        &mut self,
        node: &Node,
        sources: &[Source],
        reference: Operand,
        buffers: &mut Vec<BufferId>,
    ) -> Result<Vec<f32>, BackendError> {
        let mut srcs = Vec::with_capacity(sources.len());
        for Source { operand, bytes } in sources {
            let mut own = *operand;
            if let Some(bytes) = bytes {
                own.slot = self.buffer(bytes.len(), buffers)?;
                self.write(own.slot, bytes)?;
            }
            srcs.push(own);
        }
        let mut out = reference;
        if let Slot::Buffer { .. } = out.slot {
            let over = sources.iter().position(|source| source.operand.slot == reference.slot);
            let bytes = out.dtype.bytes_for(out.shape.n_elems()).unwrap_or(0);
            out.slot = match over {
                Some(index) => srcs[index].slot,
                None => self.buffer(bytes, buffers)?,
            };
        }
        self.backend.execute_node(&NodeCall { node, srcs: &srcs, out })?;
        self.backend.submit()?;
        let mut got = Vec::new();
        if let (Slot::Buffer { id, offset_bytes }, DType::F32) = (out.slot, out.dtype) {
            got.resize(out.shape.n_elems(), 0.0);
            self.backend.read(id, offset_bytes, bytemuck::cast_slice_mut(&mut got))?;
        }
        Ok(got)
    }

    fn buffer(&mut self, bytes: usize, buffers: &mut Vec<BufferId>) -> Result<Slot, BackendError> {
        let id = self.backend.alloc(bytes)?;
        buffers.push(id);
        Ok(Slot::Buffer { id, offset_bytes: 0 })
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), BackendError> {
        match slot {
            Slot::Buffer { id, offset_bytes } => self.backend.write(id, offset_bytes, bytes),
            Slot::Kv { .. } => Ok(()),
        }
    }

    fn note(&mut self, node: &Node, difference: Difference) {
        let class = NodeClass::of(node, self.kv_format);
        let passes = difference.relative <= class.tolerance;
        if !passes && self.failure.is_none() {
            let (step, node) = (self.step.clone(), node.name.clone());
            self.failure = Some(NodeFailure { step, node, class: class.clone(), difference });
        }
        match self.ops.iter_mut().find(|op| op.class == class) {
            Some(op) => {
                op.n += 1;
                op.difference = op.difference.max(difference);
            }
            None => self.ops.push(OpReport { class, n: 1, difference }),
        }
    }
}

impl Observer for Twin {
    fn node_start(&mut self, node: &Node, sources: &mut NodeSources<'_>) {
        if self.error.is_none()
            && let Err(source) = self.read_sources(node, sources)
        {
            self.error = Some(GraphError::at_node(node, node.backend.unwrap_or(BackendId::CPU), source));
        }
    }

    fn node_end(&mut self, node: &Node, value: &mut NodeValue<'_>) {
        if self.error.is_none()
            && let Err(source) = self.repeat(node, value)
        {
            self.error = Some(GraphError::at_node(node, self.id, source));
        }
    }
}
