//! What a launcher works with: the node's values, weights, and the parts of the backend that outlive a node.

use super::NAME;
use super::caches::Caches;
use super::device::Device;
use super::kv::KvRegions;
use super::values::{Source, Values};
use crate::graph::{BackendError, NodeCall};
use crate::tensor::{DType, Tensor};

/// One node about to run.
pub(super) struct Launch<'a> {
    pub(super) call: &'a NodeCall<'a>,
    pub(super) device: &'a Device,
    pub(super) values: Values<'a>,
    pub(super) kv: &'a mut KvRegions,
    pub(super) caches: &'a mut Caches,
}

/// A result that starts as a copy of a source.
pub(super) struct InPlace<'a> {
    /// The result.
    pub(super) out: &'a mut [f32],
    /// The source; `None` if the result holds it already.
    pub(super) src: Option<&'a [f32]>,
}

impl InPlace<'_> {
    /// Copies the source's elements from `start` on into `part`, the same part of the result.
    pub(super) fn load(src: Option<&[f32]>, start: usize, part: &mut [f32]) {
        if let Some(src) = src {
            part.copy_from_slice(&src[start..start + part.len()]);
        }
    }
}

impl<'a> Launch<'a> {
    /// A violated precondition of this node.
    pub(super) fn broken(
        &self,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> BackendError {
        self.call.broken(what, expected, got)
    }

    /// Source `index` as f32.
    pub(super) fn f32_src(&self, index: usize) -> Result<&'a [f32], BackendError> {
        self.src(index)
    }

    /// Source `index` as i32.
    pub(super) fn i32_src(&self, index: usize) -> Result<&'a [i32], BackendError> {
        self.src(index)
    }

    fn src<T: bytemuck::Pod>(&self, index: usize) -> Result<&'a [T], BackendError> {
        match self.values.srcs[index] {
            Source::Apart(bytes) => cast(self.call, bytes),
            Source::Result | Source::Overlap => Err(self.broken(
                "place of a source",
                "apart from the result",
                format!("source {index} on it"),
            )),
            Source::Kv(layer) => {
                Err(self.broken("place of a source", "a buffer", format!("the KV regions of layer {layer}")))
            }
        }
    }

    /// Whether source `index` is the result's own memory.
    pub(super) fn src_is_result(&self, index: usize) -> bool {
        matches!(self.values.srcs[index], Source::Result)
    }

    /// The result as f32, once.
    pub(super) fn take_out(&mut self) -> Result<&'a mut [f32], BackendError> {
        let bytes = std::mem::take(&mut self.values.out);
        bytemuck::try_cast_slice_mut(bytes)
            .map_err(|error| self.broken("place of the result", "a multiple of 4 bytes", error))
    }

    /// The result and, unless it is the same memory, source 0.
    pub(super) fn take_in_place(&mut self) -> Result<InPlace<'a>, BackendError> {
        let src = if self.src_is_result(0) { None } else { Some(self.f32_src(0)?) };
        Ok(InPlace { out: self.take_out()?, src })
    }

    /// Weight `index`, with the type and shape that the node was built for.
    pub(super) fn weight(&self, index: usize) -> Result<&'a Tensor, BackendError> {
        let wanted = &self.call.node.meta.weights[index];
        let Some(tensor) = self.device.weights.get(&wanted.name) else {
            let (node, weight) = (self.call.node.name.clone(), wanted.name.to_string());
            return Err(BackendError::MissingWeight { node, weight, backend: NAME });
        };
        if (tensor.dtype, tensor.shape) != (wanted.dtype, wanted.shape) {
            let show = |dtype, shape| format!("{dtype} {shape}");
            let (expected, got) = (show(wanted.dtype, wanted.shape), show(tensor.dtype, tensor.shape));
            return Err(self.broken("type and shape of a weight", expected, got));
        }
        Ok(tensor)
    }

    /// Weight `index` as f32 values.
    pub(super) fn f32_weight(&self, index: usize) -> Result<&'a [f32], BackendError> {
        let tensor = self.weight(index)?;
        if tensor.dtype != DType::F32 {
            return Err(self.broken("type of a weight", DType::F32, tensor.dtype));
        }
        cast(self.call, &tensor.bytes)
    }
}

fn cast<'a, T: bytemuck::Pod>(call: &NodeCall<'_>, bytes: &'a [u8]) -> Result<&'a [T], BackendError> {
    bytemuck::try_cast_slice(bytes)
        .map_err(|error| call.broken("place of a value", "a multiple of 4 bytes", error))
}
