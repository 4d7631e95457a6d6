//! Weights on the device, as the file's own blocks.
//!
//! A weight that is larger than a binding may be is cut into ranges of rows, each in a buffer of its own.
//! Weights of a group that have one type and row length lie one after the other in one buffer, so that a
//! kernel reads them as one matrix.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::device::Gpu;
use super::pool::USAGE;
use crate::graph::{BackendError, WeightRef};
use crate::tensor::{DType, Shape, Tensor, TensorMap};

/// Bytes handed to the driver at once; it keeps a copy until the device has them.
const STAGING_BYTES: usize = 16 << 20;
/// Kernels read sixteen elements at a time, all but one of which may lie beyond a row of f32; words of blocks
/// reach less far.
const PADDING_BYTES: usize = 15 * 4;

/// Rows of a weight in one buffer.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) buffer: wgpu::Buffer,
    /// Which rows of the weight.
    pub(super) rows: Range<usize>,
    /// Row of the buffer at which they start.
    pub(super) first_row: usize,
}

/// A weight on the device.
#[derive(Debug)]
pub(super) struct Resident {
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    pub(super) parts: Vec<Part>,
}

impl Resident {
    /// Bytes of a row.
    pub(super) fn row_bytes(&self) -> usize {
        self.dtype.bytes_for(self.shape.row_len()).unwrap_or(0)
    }
}

/// Every weight on the device.
#[derive(Default)]
pub(super) struct Weights {
    resident: HashMap<String, Arc<Resident>>,
    bytes: usize,
}

impl Weights {
    /// The weight as the node was built for.
    pub(super) fn get(&self, weight: &WeightRef) -> Option<Arc<Resident>> {
        let resident = self.resident.get(&*weight.name)?;
        ((resident.dtype, resident.shape) == (weight.dtype, weight.shape)).then(|| Arc::clone(resident))
    }

    /// Bytes of all weights.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies weights to the device. On an error nothing new stays.
    pub(super) fn upload(
        &mut self,
        gpu: &Gpu,
        weights: &TensorMap,
        names: &BTreeSet<String>,
        groups: &[Vec<String>],
    ) -> Result<(), BackendError> {
        let mut new = Weights::default();
        let mut left: BTreeSet<&String> =
            names.iter().filter(|name| !self.resident.contains_key(*name)).collect();
        for group in groups {
            let members: Vec<&String> = group.iter().filter(|name| left.remove(name)).collect();
            for run in runs(gpu, weights, &members) {
                new.add(gpu, weights, &run)?;
            }
        }
        for name in left {
            new.add(gpu, weights, &[name])?;
        }
        gpu.wait()?;
        self.bytes += new.bytes;
        self.resident.extend(new.resident);
        Ok(())
    }

    /// Copies weights of one type and row length one after the other, or one weight of any size.
    fn add(&mut self, gpu: &Gpu, weights: &TensorMap, run: &[&String]) -> Result<(), BackendError> {
        let tensors = run.iter().filter_map(|name| Some((*name, weights.get(name)?)));
        let tensors: Vec<(&String, &Tensor)> = tensors.collect();
        let bytes: usize = tensors.iter().map(|(_, tensor)| tensor.bytes.len()).sum();
        if let [(name, tensor)] = tensors[..] {
            let parts = upload_in_parts(gpu, tensor)?;
            self.insert(name, tensor, parts);
            return Ok(());
        }
        let slices: Vec<&[u8]> = tensors.iter().map(|(_, tensor)| &*tensor.bytes).collect();
        let buffer = upload_slices(gpu, &slices, bytes)?;
        let mut first_row = 0;
        for (name, tensor) in tensors {
            let part = Part { buffer: buffer.clone(), rows: 0..tensor.shape.n_rows(), first_row };
            first_row += tensor.shape.n_rows();
            self.insert(name, tensor, vec![part]);
        }
        Ok(())
    }

    fn insert(&mut self, name: &str, tensor: &Tensor, parts: Vec<Part>) {
        let resident = Resident { dtype: tensor.dtype, shape: tensor.shape, parts };
        self.resident.insert(name.to_owned(), Arc::new(resident));
        self.bytes += tensor.bytes.len();
    }
}

/// Cuts a group where type or row length change, or where a buffer would be larger than a binding may be.
fn runs<'a>(gpu: &Gpu, weights: &TensorMap, group: &[&'a String]) -> Vec<Vec<&'a String>> {
    let mut runs: Vec<Vec<&String>> = Vec::new();
    let mut bytes = 0;
    let form = |name: &String| weights.get(name).map(|tensor| (tensor.dtype, tensor.shape.row_len()));
    let size = |name: &String| weights.get(name).map_or(0, |tensor| tensor.bytes.len());
    for &name in group {
        let fits = bytes + size(name) + PADDING_BYTES <= gpu.max_binding_bytes();
        match runs.last_mut() {
            Some(run) if fits && form(run[0]) == form(name) => run.push(name),
            _ => {
                bytes = 0;
                runs.push(vec![name]);
            }
        }
        bytes += size(name);
    }
    runs
}

fn upload_in_parts(gpu: &Gpu, tensor: &Tensor) -> Result<Vec<Part>, BackendError> {
    let n_rows = tensor.shape.n_rows();
    let row_bytes = tensor.bytes.len() / n_rows.max(1);
    let max_rows = (gpu.max_binding_bytes() - PADDING_BYTES) / row_bytes.max(1);
    if max_rows == 0 {
        let what = "a row of a weight, which may not be larger than a binding";
        return Err(BackendError::OutOfMemory { backend: gpu.label(), bytes: row_bytes, what });
    }
    let mut parts = Vec::new();
    for start in (0..n_rows).step_by(max_rows) {
        let rows = start..(start + max_rows).min(n_rows);
        let bytes = &tensor.bytes[rows.start * row_bytes..rows.end * row_bytes];
        let buffer = upload_slices(gpu, &[bytes], bytes.len())?;
        parts.push(Part { buffer, rows, first_row: 0 });
    }
    Ok(parts)
}

/// A buffer of `slices` one after the other, `bytes` in all.
fn upload_slices(gpu: &Gpu, slices: &[&[u8]], bytes: usize) -> Result<wgpu::Buffer, BackendError> {
    let buffer = gpu.create_buffer(bytes + PADDING_BYTES, USAGE, "weights")?;
    let mut stage: Vec<u8> = Vec::with_capacity(STAGING_BYTES.min(bytes.next_multiple_of(4)));
    let mut written = 0;
    let flush = |stage: &mut Vec<u8>, written: &mut u64| {
        stage.resize(stage.len().next_multiple_of(4), 0);
        gpu.queue.write_buffer(&buffer, *written, stage);
        *written += stage.len() as u64;
        stage.clear();
        gpu.queue.submit([]);
        gpu.wait()
    };
    for mut slice in slices.iter().copied() {
        while !slice.is_empty() {
            let n = slice.len().min(STAGING_BYTES - stage.len());
            stage.extend_from_slice(&slice[..n]);
            slice = &slice[n..];
            if stage.len() == STAGING_BYTES {
                flush(&mut stage, &mut written)?;
            }
        }
    }
    if !stage.is_empty() {
        flush(&mut stage, &mut written)?;
    }
    Ok(buffer)
}
