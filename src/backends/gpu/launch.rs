//! What a launcher works with: the node's values, weights, and the recorder.

use std::sync::{Arc, Mutex};

use super::device::Gpu;
use super::kv::{KvLayer, KvRegions};
use super::pipelines::{PipelineKey, Shader};
use super::pool::Pool;
use super::record::{Bound, Dispatch, Recorder};
use super::scratch::Scratch;
use super::tables::Tables;
use super::weights::{Resident, Weights};
use crate::graph::{BackendError, NodeCall, Operand, Slot};
use crate::tensor::DType;
use crate::threads::lock;

/// Workgroups per dimension that every device takes.
const MAX_WORKGROUPS: u32 = 65_535;

/// One node about to be recorded.
pub(super) struct Launch<'a> {
    pub(super) call: &'a NodeCall<'a>,
    pub(super) gpu: &'a Gpu,
    pub(super) weights: &'a Mutex<Weights>,
    pub(super) pool: &'a Pool,
    pub(super) kv: &'a KvRegions,
    pub(super) tables: &'a mut Tables,
    pub(super) scratch: &'a mut Scratch,
    pub(super) recorder: &'a mut Recorder,
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

    /// Source `index` in its buffer, all of which a kernel may read.
    pub(super) fn src(&self, index: usize) -> Result<Bound<'a>, BackendError> {
        self.expect_one_binding(&self.call.srcs[index])?;
        self.src_in_parts(index)
    }

    /// The result in its buffer, all of which a kernel may write.
    pub(super) fn out(&self) -> Result<Bound<'a>, BackendError> {
        self.expect_one_binding(&self.call.out)?;
        self.out_in_parts()
    }

    /// Source `index` in its buffer, for kernels each of which is given a part of it.
    pub(super) fn src_in_parts(&self, index: usize) -> Result<Bound<'a>, BackendError> {
        self.value("place of a source", &self.call.srcs[index])
    }

    /// The result in its buffer, for kernels each of which is given a part of it.
    pub(super) fn out_in_parts(&self) -> Result<Bound<'a>, BackendError> {
        self.value("place of the result", &self.call.out)
    }

    fn expect_one_binding(&self, operand: &Operand) -> Result<(), BackendError> {
        let most = self.gpu.max_value_bytes();
        match operand.dtype.bytes_for(operand.shape.n_elems()) {
            Some(bytes) if bytes > most => {
                Err(self.broken("bytes of a value", format!("at most {most}"), bytes))
            }
            _ => Ok(()),
        }
    }

    fn value(&self, what: &'static str, operand: &Operand) -> Result<Bound<'a>, BackendError> {
        let Slot::Buffer { id, offset_bytes } = operand.slot else {
            return Err(self.broken(what, "a buffer", "KV regions"));
        };
        let bytes = operand.dtype.bytes_for(operand.shape.n_elems());
        let bytes = bytes.ok_or_else(|| self.broken(what, "whole blocks", operand.shape))?;
        let buffer = self.pool.get(id, offset_bytes, bytes)?;
        Ok(Bound { buffer, offset_bytes, elem_bytes: 4 })
    }

    /// Whether source `index` is the result's own memory. A source that only overlaps the result is an error.
    pub(super) fn is_in_place(&self, index: usize) -> Result<bool, BackendError> {
        let (src, out) = (&self.call.srcs[index], &self.call.out);
        let (Slot::Buffer { id: a, .. }, Slot::Buffer { id: b, .. }) = (src.slot, out.slot) else {
            return Ok(false);
        };
        match (a == b, src.slot == out.slot) {
            (false, _) => Ok(false),
            (true, true) => Ok(true),
            (true, false) => Err(self.broken(
                "place of a source",
                "apart from the result, or on it",
                format!("source {index} overlapping it"),
            )),
        }
    }

    /// Fails if source `index` lies in the result's buffer.
    pub(super) fn expect_apart(&self, index: usize) -> Result<(), BackendError> {
        match self.is_in_place(index)? {
            true => Err(self.broken(
                "place of a source",
                "apart from the result",
                format!("source {index} on it"),
            )),
            false => Ok(()),
        }
    }

    /// Weight `index`, with the type and shape that the node was built for.
    pub(super) fn weight(&self, index: usize) -> Result<Arc<Resident>, BackendError> {
        let wanted = &self.call.node.meta.weights[index];
        let found = lock(self.weights).get(wanted);
        found.ok_or_else(|| BackendError::MissingWeight {
            node: self.call.node.name.clone(),
            weight: wanted.name.to_string(),
            backend: self.gpu.label(),
        })
    }

    /// Weight `index`, a vector of f32.
    pub(super) fn vector(&self, index: usize) -> Result<Arc<Resident>, BackendError> {
        let weight = self.weight(index)?;
        if weight.dtype != DType::F32 {
            return Err(self.broken("type of a weight", DType::F32, weight.dtype));
        }
        if weight.parts.len() != 1 {
            return Err(self.broken("buffers of a vector", 1, weight.parts.len()));
        }
        Ok(weight)
    }

    /// The regions of `layer`, whose rows of keys and of values have these lengths.
    pub(super) fn layer(&self, layer: u32, row_elems: (usize, usize)) -> Result<&'a KvLayer, BackendError> {
        let Some(found) = self.kv.get(layer) else {
            return Err(self.broken("KV regions", format!("those of layer {layer}"), "none"));
        };
        let got = (found.shape.k_row_elems, found.shape.v_row_elems);
        match got == row_elems {
            true => Ok(found),
            false => Err(self.broken("key and value rows", format!("{row_elems:?}"), format!("{got:?}"))),
        }
    }

    /// Records a kernel that has one invocation for each of `n` things, in workgroups of `size`.
    pub(super) fn for_each(
        &mut self,
        shader: &'static Shader,
        key: PipelineKey,
        buffers: &[Bound<'_>],
        params: &[u32],
        n: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        let workgroups = self.grid(n.div_ceil(size))?;
        self.dispatch(&Dispatch { shader, key, buffers, params, workgroups, weight_bytes: 0 })
    }

    /// Records a kernel.
    pub(super) fn dispatch(&mut self, dispatch: &Dispatch<'_>) -> Result<(), BackendError> {
        self.recorder.dispatch(self.gpu, dispatch)
    }

    /// `n` workgroups in two dimensions: kernels count `x + y * 65535`.
    pub(super) fn grid(&self, n: usize) -> Result<[u32; 3], BackendError> {
        let n = u32::try_from(n).map_err(|_| self.broken("number of workgroups", u32::MAX, n))?;
        let y = n.div_ceil(MAX_WORKGROUPS);
        if y > MAX_WORKGROUPS {
            return Err(self.broken("number of workgroups", u64::from(MAX_WORKGROUPS).pow(2), n));
        }
        Ok([n.min(MAX_WORKGROUPS), y, 1])
    }
}

impl Resident {
    /// The only buffer of a vector.
    pub(super) fn bound(&self) -> Bound<'_> {
        let part = &self.parts[0];
        Bound { buffer: &part.buffer, offset_bytes: part.first_row * self.row_bytes(), elem_bytes: 4 }
    }
}
