//! Watching a graph run: hooks for traces, profiles and node-by-node comparison. The library itself never
//! prints.

use super::{Backend, BackendError, Executable, Node, Operand, Slot, Split, ValueCopy};
use crate::tensor::DType;

/// Is told what [`Executable::run`](super::Executable::run) does. `()` watches nothing.
pub trait Observer {
    /// A graph has been built and compiled, and is about to run for the first time.
    fn graph_built(&mut self, _executable: &Executable) {}

    /// A split begins; its copies come first.
    fn split_start(&mut self, _split: &Split) {}

    /// All nodes of a split have been handed to the backend.
    fn split_end(&mut self, _split: &Split) {}

    /// A value has been copied to another backend.
    fn copied(&mut self, _copy: &ValueCopy) {}

    /// A node is about to be handed to its backend, which has its sources ready.
    fn node_start(&mut self, _node: &Node, _sources: &mut NodeSources<'_>) {}

    /// A node has been handed to its backend. `value` is its result until the next node runs.
    fn node_end(&mut self, _node: &Node, _value: &mut NodeValue<'_>) {}
}

impl Observer for () {}

/// The sources of the node that runs next. An in-place node overwrites one of them.
pub struct NodeSources<'a> {
    backend: &'a mut dyn Backend,
    operands: &'a [Operand],
}

impl<'a> NodeSources<'a> {
    pub(crate) fn new(backend: &'a mut dyn Backend, operands: &'a [Operand]) -> NodeSources<'a> {
        NodeSources { backend, operands }
    }

    /// Shapes, types and places, in the order of the node's sources.
    pub fn operands(&self) -> &'a [Operand] {
        self.operands
    }

    /// Reads the bytes of source `index` into `out`, which takes their length. False if there is no such
    /// source, or it lies in KV regions. Waits for the backend.
    pub fn read(&mut self, index: usize, out: &mut Vec<u8>) -> Result<bool, BackendError> {
        match self.operands.get(index) {
            Some(Operand { slot: Slot::Buffer { id, offset_bytes }, shape, dtype }) => {
                out.resize(dtype.bytes_for(shape.n_elems()).unwrap_or(0), 0);
                self.backend.read(*id, *offset_bytes, out)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// The result of the node that ran last.
pub struct NodeValue<'a> {
    backend: &'a mut dyn Backend,
    operand: Operand,
}

impl<'a> NodeValue<'a> {
    pub(crate) fn new(backend: &'a mut dyn Backend, operand: Operand) -> NodeValue<'a> {
        NodeValue { backend, operand }
    }

    /// Shape, type and place.
    pub fn operand(&self) -> &Operand {
        &self.operand
    }

    /// Waits for the backend, so that time spent so far can be attributed to this node.
    pub fn synchronize(&mut self) -> Result<(), BackendError> {
        self.backend.synchronize()
    }

    /// Reads an f32 value into `out`, which takes its length. False if the value is not f32 or lies in KV
    /// regions.
    pub fn read_f32(&mut self, out: &mut Vec<f32>) -> Result<bool, BackendError> {
        match self.operand.slot {
            Slot::Buffer { id, offset_bytes } if self.operand.dtype == DType::F32 => {
                out.resize(self.operand.shape.n_elems(), 0.0);
                self.backend.read(id, offset_bytes, bytemuck::cast_slice_mut(out))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
