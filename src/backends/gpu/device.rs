//! The GPU: which adapter to take, its limits and features, and what it said when something went wrong.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::pipelines::Pipelines;
use super::record::ALIGNMENT;
use crate::graph::{Availability, BackendError, DeviceInfo, DeviceKind};
use crate::threads::lock;

/// Bytes of immediates that kernels may use: what every Vulkan and Metal device has.
pub(super) const IMMEDIATES_BYTES: u32 = 128;

/// What timestamps of nodes take.
const CLOCK: wgpu::Features = wgpu::Features::TIMESTAMP_QUERY
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES)
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);

/// The interface through which a GPU is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Api {
    Metal,
    Vulkan,
}

impl Api {
    /// What this system has.
    pub(super) const HERE: Api = if cfg!(target_vendor = "apple") { Api::Metal } else { Api::Vulkan };

    /// The backend's name in messages.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Api::Metal => "Metal",
            Api::Vulkan => "Vulkan",
        }
    }

    const fn backends(self) -> wgpu::Backends {
        match self {
            Api::Metal => wgpu::Backends::METAL,
            Api::Vulkan => wgpu::Backends::VULKAN,
        }
    }
}

/// An opened GPU with its compiled kernels. All models and contexts of the process share it.
pub(super) struct Gpu {
    pub(super) api: Api,
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    limits: wgpu::Limits,
    /// Lanes of a subgroup if kernels may rely on it, else 0.
    pub(super) subgroup_size: u32,
    /// Timestamps can be written inside a pass.
    pub(super) has_timestamps: bool,
    pub(super) info: DeviceInfo,
    pub(super) pipelines: Pipelines,
    faults: Arc<Faults>,
}

/// What the driver reported since it was last asked.
#[derive(Default)]
struct Faults {
    lost: Mutex<Option<String>>,
    errors: Mutex<Vec<wgpu::Error>>,
}

/// The adapters that kernels can run on, best first. Looked for once: drivers take their time, and some talk.
fn adapters(api: Api) -> &'static [wgpu::Adapter] {
    static ADAPTERS: OnceLock<Vec<wgpu::Adapter>> = OnceLock::new();
    ADAPTERS.get_or_init(|| {
        let descriptor = wgpu::InstanceDescriptor {
            backends: api.backends(),
            flags: wgpu::InstanceFlags::empty(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        };
        let instance = wgpu::Instance::new(descriptor);
        let mut adapters = pollster::block_on(instance.enumerate_adapters(api.backends()));
        adapters.retain(suffices);
        adapters.sort_by_key(|adapter| kind(adapter.get_info().device_type));
        adapters
    })
}

/// Whether the kernels can run: what every GPU of the last ten years has.
fn suffices(adapter: &wgpu::Adapter) -> bool {
    let limits = adapter.limits();
    adapter.features().contains(wgpu::Features::IMMEDIATES)
        && limits.max_immediate_size >= IMMEDIATES_BYTES
        && limits.max_storage_buffers_per_shader_stage >= 10
        && limits.min_storage_buffer_offset_alignment as usize <= ALIGNMENT
        && limits.max_compute_invocations_per_workgroup >= 256
        && limits.max_compute_workgroup_size_x >= 256
        && limits.max_compute_workgroup_storage_size >= 16 << 10
}

/// Whether the system shows a GPU at a glance. Linux gives every one a file.
pub(super) fn is_likely(api: Api) -> bool {
    const NAMES: [&str; 5] = ["dri", "nvidiactl", "dxg", "kgsl-3d0", "mali0"];
    let on_linux = api == Api::Vulkan && cfg!(target_os = "linux");
    !on_linux || NAMES.iter().any(|name| std::path::Path::new("/dev").join(name).exists())
}

fn kind(device_type: wgpu::DeviceType) -> DeviceKind {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::Discrete,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::Integrated,
        wgpu::DeviceType::Cpu => DeviceKind::Software,
        wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => DeviceKind::Other,
    }
}

/// Looks for a GPU without opening it.
pub(super) fn availability(api: Api) -> Availability {
    match adapters(api).first().map(wgpu::Adapter::get_info) {
        None => Availability::Unavailable(format!(
            "no {} driver, or no device with what the kernels need, was found",
            api.label()
        )),
        Some(info) if kind(info.device_type) == DeviceKind::Software => Availability::OnlyNamed(format!(
            "{} computes on the processor, slower than the CPU backend",
            info.name
        )),
        Some(_) => Availability::Available,
    }
}

/// The GPU that is open in this process, while anyone uses it.
static OPENED: Mutex<Weak<Gpu>> = Mutex::new(Weak::new());

impl Gpu {
    /// The GPU that is open and works, or the best one there is, opened now.
    pub(super) fn shared(api: Api) -> Result<Arc<Gpu>, BackendError> {
        let mut opened = lock(&OPENED);
        match opened.upgrade().filter(|gpu| lock(&gpu.faults.lost).is_none()) {
            Some(gpu) => Ok(gpu),
            None => {
                let gpu = Arc::new(Gpu::open(api)?);
                *opened = Arc::downgrade(&gpu);
                Ok(gpu)
            }
        }
    }

    /// Opens the best adapter: discrete before integrated before software.
    fn open(api: Api) -> Result<Gpu, BackendError> {
        let refused = |reason: String| BackendError::Driver {
            backend: api.label(),
            what: "opening the device".to_owned(),
            reason,
        };
        let adapter = adapters(api).first().ok_or_else(|| refused("there is none".to_owned()))?;
        let (info, limits) = (adapter.get_info(), adapter.limits());
        let features = features(adapter);
        let request = adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("minfer"),
            required_features: features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::Performance,
            ..wgpu::DeviceDescriptor::default()
        });
        let (device, queue) = pollster::block_on(request).map_err(|error| refused(error.to_string()))?;
        let faults = watch(&device);
        let memory_bytes = memory_bytes(api, adapter);
        Ok(Gpu {
            api,
            device,
            queue,
            subgroup_size: subgroup_size(&info, features),
            has_timestamps: features.contains(CLOCK),
            info: describe(&info, &limits, features, memory_bytes),
            limits,
            pipelines: Pipelines::default(),
            faults,
        })
    }

    /// The backend's name in messages.
    pub(super) fn label(&self) -> &'static str {
        self.api.label()
    }

    /// Bytes that one binding may span. Kernels count bytes in 32 bits.
    pub(super) fn max_binding_bytes(&self) -> usize {
        max_binding_bytes(&self.limits)
    }

    /// Bytes that a value may have so that one binding spans it, wherever in its buffer it starts.
    pub(super) fn max_value_bytes(&self) -> usize {
        self.max_binding_bytes() - ALIGNMENT
    }

    /// Makes a buffer of `bytes`, rounded up to whole words.
    pub(super) fn create_buffer(
        &self,
        bytes: usize,
        usage: wgpu::BufferUsages,
        what: &'static str,
    ) -> Result<wgpu::Buffer, BackendError> {
        self.check("allocating memory")?;
        let size = bytes.next_multiple_of(4) as u64;
        let out_of_memory = BackendError::OutOfMemory { backend: self.label(), bytes, what };
        if size > self.limits.max_buffer_size {
            return Err(out_of_memory);
        }
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let descriptor = wgpu::BufferDescriptor { label: Some(what), size, usage, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&descriptor);
        match pollster::block_on(memory.pop()) {
            Some(_) => Err(out_of_memory),
            None => self.check("allocating memory").map(|()| buffer),
        }
    }

    /// Fails if the device was lost or the driver complained since the last check.
    pub(super) fn check(&self, what: &str) -> Result<(), BackendError> {
        if let Some(reason) = &*lock(&self.faults.lost) {
            // A driver that has no memory left for its own work gives the device up.
            return Err(match reason.to_lowercase().contains("out of memory") {
                true => self.exhausted(what, reason),
                false => BackendError::DeviceLost { backend: self.label(), reason: reason.clone() },
            });
        }
        match std::mem::take(&mut *lock(&self.faults.errors)).into_iter().next() {
            None => Ok(()),
            Some(wgpu::Error::OutOfMemory { source }) => Err(self.exhausted(what, &source.to_string())),
            Some(error) => Err(self.driver_error(what, &error)),
        }
    }

    fn exhausted(&self, what: &str, reason: &str) -> BackendError {
        BackendError::Exhausted { backend: self.label(), what: what.to_owned(), reason: reason.to_owned() }
    }

    /// An error with all that the driver said.
    pub(super) fn driver_error(&self, what: &str, error: &dyn std::error::Error) -> BackendError {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let text = inner.to_string();
            if !reason.contains(&text) {
                reason += &format!(": {text}");
            }
            source = inner.source();
        }
        BackendError::Driver { backend: self.label(), what: what.to_owned(), reason }
    }

    /// Waits until everything that was handed over is done.
    pub(super) fn wait(&self) -> Result<(), BackendError> {
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        self.check("waiting for the device")?;
        polled.map(drop).map_err(|error| self.driver_error("waiting for the device", &error))
    }

    /// Gives the device up, as a driver crash would.
    pub(super) fn destroy(&self) {
        let mut lost = lock(&self.faults.lost);
        lost.get_or_insert_with(|| "it was given up".to_owned());
        drop(lost);
        self.device.destroy();
    }
}

/// What of the adapter's features kernels and clock use.
fn features(adapter: &wgpu::Adapter) -> wgpu::Features {
    let there = adapter.features();
    let clock = if there.contains(CLOCK) { CLOCK } else { wgpu::Features::empty() };
    wgpu::Features::IMMEDIATES | (there & wgpu::Features::SUBGROUP) | clock
}

/// Lanes of a subgroup if there are subgroups and all have one size, else 0.
fn subgroup_size(info: &wgpu::AdapterInfo, features: wgpu::Features) -> u32 {
    let has_one_size = info.subgroup_min_size == info.subgroup_max_size;
    if has_one_size && features.contains(wgpu::Features::SUBGROUP) { info.subgroup_min_size } else { 0 }
}

/// Collects what the driver reports instead of letting it end the process.
fn watch(device: &wgpu::Device) -> Arc<Faults> {
    let faults = Arc::new(Faults::default());
    let (on_lost, on_error) = (Arc::clone(&faults), Arc::clone(&faults));
    device.set_device_lost_callback(move |reason, message| {
        let mut lost = lock(&on_lost.lost);
        lost.get_or_insert_with(|| format!("{reason:?}: {message}"));
    });
    device.on_uncaptured_error(Arc::new(move |error| {
        lock(&on_error.errors).push(error);
    }));
    faults
}

fn max_binding_bytes(limits: &wgpu::Limits) -> usize {
    let bytes = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
    usize::try_from(bytes).unwrap_or(usize::MAX).min(1 << 31)
}

fn describe(
    info: &wgpu::AdapterInfo,
    limits: &wgpu::Limits,
    features: wgpu::Features,
    memory_bytes: Option<usize>,
) -> DeviceInfo {
    let subgroups = match features.contains(wgpu::Features::SUBGROUP) {
        true if info.subgroup_min_size == info.subgroup_max_size => {
            format!("subgroups of {}", info.subgroup_min_size)
        }
        true => format!("subgroups of {} to {}", info.subgroup_min_size, info.subgroup_max_size),
        false => "no subgroups".to_owned(),
    };
    let binding = format!("bindings of {} MiB", limits.max_storage_buffer_binding_size >> 20);
    DeviceInfo {
        name: info.name.clone(),
        kind: kind(info.device_type),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        memory_bytes,
        max_region_bytes: Some(max_binding_bytes(limits)),
        details: vec![subgroups, binding],
    }
}

/// Bytes of the largest heap in the device's own memory.
fn memory_bytes(api: Api, adapter: &wgpu::Adapter) -> Option<usize> {
    match api {
        Api::Vulkan => vulkan_memory_bytes(adapter),
        Api::Metal => None,
    }
}

#[cfg(not(target_vendor = "apple"))]
fn vulkan_memory_bytes(adapter: &wgpu::Adapter) -> Option<usize> {
    // SAFETY: the handle is only read, and `adapter` outlives it.
    let hal = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = hal.shared_instance().raw_instance();
    // SAFETY: the physical device belongs to this instance.
    let memory = unsafe { instance.get_physical_device_memory_properties(hal.raw_physical_device()) };
    // Bit 0 of a heap's flags says that it is the device's own.
    let heaps = memory.memory_heaps[..memory.memory_heap_count as usize].iter();
    let largest = heaps.filter(|heap| heap.flags.as_raw() & 1 != 0).map(|heap| heap.size).max()?;
    // A tenth stays for the desktop and the driver.
    usize::try_from(largest - largest / 10).ok()
}

#[cfg(target_vendor = "apple")]
fn vulkan_memory_bytes(_: &wgpu::Adapter) -> Option<usize> {
    None
}
