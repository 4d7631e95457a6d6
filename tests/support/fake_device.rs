//! A device for tests: the CPU's kernels behind the interface of a device, with memory, faults and a clock as
//! a test wants.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use minfer::backends::cpu::{CpuBackend, CpuOptions};
use minfer::engine::{DeviceOptions, Engine, EngineOptions, GpuLayers, OpenedDevice};
use minfer::graph::*;
use minfer::tensor::{DType, Tensor, TensorMap};
use minfer::threads::ThreadPool;
use minfer::vec_ops::Isa;
use minfer::vec_ops::scalar::dequant::dequantise_row;

use super::reference;

/// The name of the fake backend in messages.
const NAME: &str = "Fake";

/// How a fake device differs from the CPU.
#[derive(Clone, Copy, Default)]
pub struct Traits {
    /// What the device says about its memory.
    pub memory_bytes: Option<usize>,
    /// Bytes that the keys or the values of one layer may take.
    pub max_region_bytes: Option<usize>,
    /// An op whose results it gets slightly wrong.
    pub wrong: Option<OpKind>,
    /// An op that it does not have.
    pub lacks: Option<OpKind>,
    /// It computes with f32 weights, and so keeps every bit of what it multiplies them with.
    pub is_precise: bool,
    /// It measures the time of every node: a microsecond.
    pub has_clock: bool,
}

/// Names and groups of the weights of one upload.
pub type Upload = (BTreeSet<String>, Vec<Vec<String>>);

/// A device made of the CPU.
pub struct FakeDevice {
    info: DeviceInfo,
    traits: Traits,
    weights: Mutex<Arc<TensorMap>>,
    /// Names and groups of every upload.
    pub uploads: Mutex<Vec<Upload>>,
    is_lost: Arc<AtomicBool>,
    /// Times that a backend waited for the device.
    pub n_waits: Arc<Mutex<u64>>,
}

impl FakeDevice {
    /// A device with `traits`.
    pub fn new(traits: Traits) -> Arc<FakeDevice> {
        let info = DeviceInfo {
            name: "a fake".to_string(),
            kind: DeviceKind::Discrete,
            driver: "none".to_string(),
            memory_bytes: traits.memory_bytes,
            max_region_bytes: traits.max_region_bytes,
            details: Vec::new(),
        };
        Arc::new(FakeDevice {
            info,
            traits,
            weights: Mutex::default(),
            uploads: Mutex::default(),
            is_lost: Arc::default(),
            n_waits: Arc::default(),
        })
    }

    /// Options with this device and `gpu_layers` blocks on it.
    pub fn options(self: &Arc<FakeDevice>, gpu_layers: GpuLayers) -> EngineOptions {
        let opened = Some(OpenedDevice { id: BackendId::VULKAN, device: self.clone() });
        let device = DeviceOptions { opened, gpu_layers, ..DeviceOptions::default() };
        EngineOptions { device, n_threads: Some(2), ..EngineOptions::default() }
    }

    /// A tiny model with `gpu_layers` blocks on this device.
    pub fn load(self: &Arc<FakeDevice>, name: &str, gpu_layers: GpuLayers) -> Engine {
        let path = reference(&format!("tiny/{name}.gguf"));
        Engine::load(&path, &self.options(gpu_layers)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn check(&self) -> Result<(), BackendError> {
        check(&self.is_lost)
    }
}

/// The same values as f32.
fn precise(tensor: &Tensor) -> Tensor {
    let mut values = vec![0.0; tensor.shape.n_elems()];
    dequantise_row(tensor.dtype, &tensor.bytes, &mut values);
    Tensor::from_f32(tensor.shape, &values)
}

fn check(is_lost: &AtomicBool) -> Result<(), BackendError> {
    match is_lost.load(Ordering::Relaxed) {
        true => Err(BackendError::DeviceLost { backend: NAME, reason: "it was given up".to_string() }),
        false => Ok(()),
    }
}

impl Device for FakeDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn upload(
        &self,
        weights: &TensorMap,
        names: &BTreeSet<String>,
        groups: &[Vec<String>],
    ) -> Result<(), BackendError> {
        self.check()?;
        let mut own = TensorMap::default();
        for name in names {
            let tensor = weights.get(name).expect("the plan names weights of the model");
            own.insert(name, if self.traits.is_precise { precise(tensor) } else { tensor.clone() });
        }
        *self.weights.lock().expect("no test panics here") = Arc::new(own);
        self.uploads.lock().expect("no test panics here").push((names.clone(), groups.to_vec()));
        Ok(())
    }

    fn weights_bytes(&self) -> usize {
        let weights = self.weights.lock().expect("no test panics here");
        weights.iter().map(|(_, tensor)| tensor.bytes.len()).sum()
    }

    fn destroy(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    fn backend(self: Arc<Self>) -> Result<Box<dyn Backend>, BackendError> {
        self.check()?;
        let weights = self.weights.lock().expect("no test panics here").clone();
        let pool = Arc::new(ThreadPool::new(2).expect("threads start"));
        let inner = CpuBackend::new(CpuOptions { weights, pool, isa: Isa::best() });
        Ok(Box::new(FakeBackend { inner, device: self, counts: WorkCounts::default(), times: None }))
    }
}

struct FakeBackend {
    inner: CpuBackend,
    device: Arc<FakeDevice>,
    counts: WorkCounts,
    times: Option<Vec<(OpKind, Duration)>>,
}

impl FakeBackend {
    /// Makes the first element of the result of `call` wrong by one.
    fn spoil(&mut self, call: &NodeCall<'_>) -> Result<(), BackendError> {
        let Slot::Buffer { id, offset_bytes } = call.out.slot else { return Ok(()) };
        let mut bytes = [0; 4];
        self.inner.read(id, offset_bytes, &mut bytes)?;
        let wrong = f32::from_le_bytes(bytes) + 1.0;
        self.inner.write(id, offset_bytes, &wrong.to_le_bytes())
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports_op(&self, op: &Op, dtype: DType) -> bool {
        self.device.traits.lacks != Some(op.kind()) && self.inner.supports_op(op, dtype)
    }

    fn supports_fused(&self, fused: FusedOp) -> bool {
        self.inner.supports_fused(fused)
    }

    fn has_weight(&self, weight: &WeightRef) -> bool {
        match self.device.traits.is_precise {
            true => self.inner.has_weight(&WeightRef { dtype: DType::F32, ..weight.clone() }),
            false => self.inner.has_weight(weight),
        }
    }

    fn weights_bytes(&self) -> usize {
        self.device.weights_bytes()
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        self.device.check()?;
        self.inner.alloc(bytes)
    }

    fn free(&mut self, buffer: BufferId) {
        self.inner.free(buffer);
    }

    fn pool_bytes(&self) -> usize {
        self.inner.pool_bytes()
    }

    fn write(&mut self, buffer: BufferId, offset_bytes: usize, bytes: &[u8]) -> Result<(), BackendError> {
        self.device.check()?;
        self.counts.uploaded_bytes += bytes.len() as u64;
        self.inner.write(buffer, offset_bytes, bytes)
    }

    fn read(&mut self, buffer: BufferId, offset_bytes: usize, out: &mut [u8]) -> Result<(), BackendError> {
        self.device.check()?;
        self.counts.downloaded_bytes += out.len() as u64;
        self.inner.read(buffer, offset_bytes, out)
    }

    fn alloc_kv(&mut self, layer: u32, shape: KvShape) -> Result<(), BackendError> {
        self.device.check()?;
        self.inner.alloc_kv(layer, shape)
    }

    fn copy_cells(&mut self, from: usize, to: usize, n: usize) -> Result<(), BackendError> {
        self.device.check()?;
        self.inner.copy_cells(from, to, n)
    }

    fn execute_node(&mut self, call: &NodeCall<'_>) -> Result<(), BackendError> {
        self.device.check()?;
        self.counts.dispatches += 1;
        let weights = call.node.meta.weights.iter();
        self.counts.weights_read_bytes += weights
            .map(|weight| weight.dtype.bytes_for(weight.shape.n_elems()).expect("whole blocks") as u64)
            .sum::<u64>();
        if let Some(times) = &mut self.times {
            times.push((call.node.op.kind(), Duration::from_micros(1)));
        }
        let mut node = call.node.clone();
        if self.device.traits.is_precise {
            node.meta.weights.iter_mut().for_each(|weight| weight.dtype = DType::F32);
        }
        self.inner.execute_node(&NodeCall { node: &node, ..*call })?;
        match self.device.traits.wrong == Some(call.node.op.kind()) {
            true => self.spoil(call),
            false => Ok(()),
        }
    }

    fn submit(&mut self) -> Result<(), BackendError> {
        self.device.check()?;
        self.counts.submissions += 1;
        Ok(())
    }

    fn counts(&self) -> WorkCounts {
        self.counts
    }

    fn measure(&mut self) -> bool {
        self.times = self.device.traits.has_clock.then(Vec::new);
        self.device.traits.has_clock
    }

    fn take_times(&mut self) -> Result<Vec<(OpKind, Duration)>, BackendError> {
        self.device.check()?;
        Ok(self.times.as_mut().map(std::mem::take).unwrap_or_default())
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        *self.device.n_waits.lock().expect("no test panics here") += 1;
        self.device.check()
    }
}
