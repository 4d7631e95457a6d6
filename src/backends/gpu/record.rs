//! Recording: dispatches go into one pass of one command buffer per split, which is handed over at its end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::clock::Clock;
use super::device::{Gpu, IMMEDIATES_BYTES};
use super::pipelines::{Pipeline, PipelineKey, Shader};
use crate::graph::{BackendError, OpKind, WorkCounts};

/// Immediates that a dispatch may have, in words.
const MAX_WORDS: usize = IMMEDIATES_BYTES as usize / 4;

/// Bindings start at multiples of so many bytes, which devices have to allow; vectors of an aligned value
/// stay aligned.
pub(super) const ALIGNMENT: usize = 256;

/// A buffer as a dispatch binds it, from a byte on.
#[derive(Clone, Copy)]
pub(super) struct Bound<'a> {
    pub(super) buffer: &'a wgpu::Buffer,
    /// Start of the value in bytes.
    pub(super) offset_bytes: usize,
    /// Bytes per element of the binding.
    pub(super) elem_bytes: usize,
}

impl<'a> Bound<'a> {
    /// A whole buffer of four-byte elements.
    pub(super) fn whole(buffer: &'a wgpu::Buffer) -> Bound<'a> {
        Bound { buffer, offset_bytes: 0, elem_bytes: 4 }
    }

    /// The value from f32 element `elem` on.
    pub(super) fn from(&self, elem: usize) -> Bound<'a> {
        Bound { offset_bytes: self.offset_bytes + elem * 4, ..*self }
    }
}

/// A dispatch about to be recorded.
pub(super) struct Dispatch<'a> {
    pub(super) shader: &'static Shader,
    pub(super) key: PipelineKey,
    /// One per binding of the shader; the first one is not bound if the key says in place.
    pub(super) buffers: &'a [Bound<'a>],
    /// The shader's params.
    pub(super) params: &'a [u32],
    pub(super) workgroups: [u32; 3],
    /// Bytes of weights that it reads.
    pub(super) weight_bytes: usize,
}

/// Multiplications that are handed over at once at most: drivers take a device for hung that works on one
/// submission for a second or two, and a small one does some hundred billion in that time.
const MAX_MACS: u64 = 50_000_000_000;

/// What makes a bind group: the pipeline whose layout it has, and buffers with their first bytes.
type BindKey = (usize, Vec<(wgpu::Buffer, u64)>);

/// Work that is being recorded, and what was recorded before.
#[derive(Default)]
pub(super) struct Recorder {
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    groups: HashMap<BindKey, wgpu::BindGroup>,
    clock: Option<Clock>,
    /// Multiplications that wait to be handed over.
    macs: u64,
    pub(super) counts: WorkCounts,
}

impl Recorder {
    /// Whether anything waits to be handed over.
    pub(super) fn is_empty(&self) -> bool {
        self.encoder.is_none()
    }

    /// Appends a dispatch.
    pub(super) fn dispatch(&mut self, gpu: &Gpu, dispatch: &Dispatch<'_>) -> Result<(), BackendError> {
        if dispatch.workgroups.contains(&0) {
            return Ok(());
        }
        let pipeline = gpu.pipelines.get(gpu, dispatch.shader, &dispatch.key)?;
        let (mut words, mut n_words) = ([0u32; MAX_WORDS], 0);
        let mut binds = Vec::with_capacity(dispatch.buffers.len());
        for (index, bound) in dispatch.buffers.iter().enumerate() {
            let start = bound.offset_bytes / ALIGNMENT * ALIGNMENT;
            words[n_words] = ((bound.offset_bytes - start) / bound.elem_bytes) as u32;
            n_words += 1;
            if index > 0 || !dispatch.key.is_in_place() {
                binds.push((bound.buffer.clone(), start as u64));
            }
        }
        for param in dispatch.params {
            words[n_words] = *param;
            n_words += 1;
        }
        let group = self.group(gpu, &pipeline, binds);
        let pass = self.pass(gpu);
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.set_immediates(0, bytemuck::cast_slice(&words[..n_words]));
        let [x, y, z] = dispatch.workgroups;
        pass.dispatch_workgroups(x, y, z);
        self.counts.dispatches += 1;
        self.counts.weights_read_bytes += dispatch.weight_bytes as u64;
        Ok(())
    }

    /// Appends a copy between two buffers, or between two ranges of one that do not overlap.
    pub(super) fn copy(
        &mut self,
        gpu: &Gpu,
        from: (&wgpu::Buffer, usize),
        to: (&wgpu::Buffer, usize),
        bytes: usize,
    ) {
        self.pass = None;
        let encoder = self.encoder(gpu);
        encoder.copy_buffer_to_buffer(from.0, from.1 as u64, to.0, to.1 as u64, bytes as u64);
    }

    /// Notes how many multiplications were appended.
    pub(super) fn add_macs(&mut self, macs: u64) {
        self.macs = self.macs.saturating_add(macs);
    }

    /// Hands everything over if it is as much as a device should get at once.
    pub(super) fn submit_if_much(&mut self, gpu: &Gpu) -> Result<(), BackendError> {
        if self.macs < MAX_MACS { Ok(()) } else { self.submit(gpu) }
    }

    /// Hands everything over.
    pub(super) fn submit(&mut self, gpu: &Gpu) -> Result<(), BackendError> {
        self.pass = None;
        self.macs = 0;
        let Some(mut encoder) = self.encoder.take() else { return Ok(()) };
        if let Some(clock) = &mut self.clock {
            clock.resolve(&mut encoder);
        }
        gpu.queue.submit([encoder.finish()]);
        self.counts.submissions += 1;
        gpu.check("handing over work")?;
        self.clock.as_mut().map_or(Ok(()), |clock| clock.collect(gpu))
    }

    /// Measures the time of nodes from now on.
    pub(super) fn measure(&mut self, gpu: &Gpu) -> Result<(), BackendError> {
        if self.clock.is_none() {
            self.clock = Some(Clock::new(gpu)?);
        }
        Ok(())
    }

    /// Notes the time before the first kernel of a node.
    pub(super) fn node_start(&mut self, gpu: &Gpu, op: OpKind) -> Result<(), BackendError> {
        match &mut self.clock {
            Some(clock) if clock.is_full() => self.submit(gpu)?,
            _ => {}
        }
        self.timestamp(gpu, Some(op));
        Ok(())
    }

    /// Notes the time after the last kernel of a node.
    pub(super) fn node_end(&mut self, gpu: &Gpu) {
        self.timestamp(gpu, None);
    }

    /// Takes the times of the nodes that were handed over.
    pub(super) fn take_times(&mut self, gpu: &Gpu) -> Result<Vec<(OpKind, Duration)>, BackendError> {
        self.submit(gpu)?;
        Ok(self.clock.as_mut().map_or(Vec::new(), Clock::take))
    }

    fn timestamp(&mut self, gpu: &Gpu, op: Option<OpKind>) {
        let Some(mut clock) = self.clock.take() else { return };
        clock.write(self.pass(gpu), op);
        self.clock = Some(clock);
    }

    fn encoder(&mut self, gpu: &Gpu) -> &mut wgpu::CommandEncoder {
        let descriptor = wgpu::CommandEncoderDescriptor { label: Some("split") };
        self.encoder.get_or_insert_with(|| gpu.device.create_command_encoder(&descriptor))
    }

    fn pass(&mut self, gpu: &Gpu) -> &mut wgpu::ComputePass<'static> {
        if self.pass.is_none() {
            let descriptor = wgpu::ComputePassDescriptor { label: Some("split"), timestamp_writes: None };
            let pass = self.encoder(gpu).begin_compute_pass(&descriptor).forget_lifetime();
            self.pass = Some(pass);
        }
        self.pass.as_mut().expect("it was just made")
    }

    /// Buffers live as long as their context, so a bind group is never made twice.
    fn group(
        &mut self,
        gpu: &Gpu,
        pipeline: &Arc<Pipeline>,
        binds: Vec<(wgpu::Buffer, u64)>,
    ) -> wgpu::BindGroup {
        let key = (pipeline.id, binds);
        if let Some(group) = self.groups.get(&key) {
            return group.clone();
        }
        let limit = gpu.max_binding_bytes() as u64;
        let mut entries = Vec::with_capacity(key.1.len());
        for (index, (buffer, offset)) in key.1.iter().enumerate() {
            let size = std::num::NonZero::new((buffer.size() - offset).min(limit));
            let binding = wgpu::BufferBinding { buffer, offset: *offset, size };
            let resource = wgpu::BindingResource::Buffer(binding);
            entries.push(wgpu::BindGroupEntry { binding: index as u32, resource });
        }
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout,
            entries: &entries,
        });
        self.groups.insert(key, group.clone());
        group
    }
}
