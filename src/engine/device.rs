//! The device of a loaded model: which one is opened, what it is given, and the backends that contexts get
//! from it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::drill::FaultDrill;
use super::offload::{GpuLayers, Offload, Planner, mib};
use super::{ContextOptions, EngineError};
use crate::backends;
use crate::graph::{Availability, Backend, BackendError, BackendId, BuiltBackend, Device, Registry};
use crate::models::Model;
use crate::tensor::TensorMap;

/// Which device a model may use, and how much of it.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// The backends that there are.
    pub registry: Registry,
    /// Backends that may be used, as the registry's fence gives them: bit `id` stands for backend `id`.
    pub fence: u32,
    /// The user asked for the backends of the fence by name: one that cannot be opened is an error. Otherwise
    /// the next one is tried, and in the end the CPU does everything.
    pub is_named: bool,
    /// A device that is open already; the registry and the fence do not matter then.
    pub opened: Option<OpenedDevice>,
    /// Blocks that run on the device.
    pub gpu_layers: GpuLayers,
    /// Bytes that weights, keys and values, and graphs may take on the device; `None` for what the device
    /// reports.
    pub memory_bytes: Option<usize>,
    /// The context that is going to be opened; the plan keeps room for it.
    pub context: ContextOptions,
    /// Fault drill: the device is given up after so many splits of a context, at least one.
    pub fault_after: Option<u64>,
}

impl Default for DeviceOptions {
    /// No device.
    fn default() -> DeviceOptions {
        DeviceOptions {
            registry: backends::builtin(),
            fence: BackendId::CPU.bit(),
            is_named: false,
            opened: None,
            gpu_layers: GpuLayers::Auto,
            memory_bytes: None,
            context: ContextOptions::default(),
            fault_after: None,
        }
    }
}

/// A device under the id of its backend.
#[derive(Clone)]
pub struct OpenedDevice {
    /// Identity of its backend.
    pub id: BackendId,
    /// The device.
    pub device: Arc<dyn Device>,
}

impl fmt::Debug for OpenedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedDevice").field("id", &self.id).field("info", self.device.info()).finish()
    }
}

/// A device with the weights of a model's first blocks.
#[derive(Debug)]
pub(super) struct LoadedDevice {
    opened: OpenedDevice,
    /// Blocks `0..gpu_layers` run on it.
    pub(super) gpu_layers: usize,
    /// Bytes that may be taken of it.
    pub(super) budget_bytes: Option<usize>,
    /// The weights that it holds.
    weights: BTreeSet<String>,
    fault_after: Option<u64>,
}

impl LoadedDevice {
    /// Opens the device that `options` allow and plans what it takes of `model`; `None` if the CPU does
    /// everything. What the user should know goes to `warnings`.
    pub(super) fn plan(
        options: &DeviceOptions,
        model: &Model,
        weights: &TensorMap,
        warnings: &mut Vec<String>,
    ) -> Result<Option<(LoadedDevice, Offload)>, EngineError> {
        let Some(opened) = open(options, warnings)? else { return Ok(None) };
        let budget_bytes = options.memory_bytes.or(opened.device.info().memory_bytes);
        let planner = Planner {
            model,
            backend: opened.id,
            weight_bytes: &|name| opened.device.weight_bytes(weights, name),
            budget_bytes,
            max_region_bytes: opened.device.info().max_region_bytes,
            context: &options.context,
        };
        let Some(offload) = planner.plan(options.gpu_layers)? else {
            warnings.push(format!("{} is not used: {}", opened.id, why_no_block(&planner)));
            return Ok(None);
        };
        let loaded = LoadedDevice {
            opened,
            gpu_layers: offload.gpu_layers,
            budget_bytes,
            weights: offload.weights.clone(),
            fault_after: options.fault_after,
        };
        Ok(Some((loaded, offload)))
    }

    /// Copies the plan's weights to the device.
    pub(super) fn upload(&self, offload: &Offload, weights: &TensorMap) -> Result<(), EngineError> {
        let uploaded = self.device().upload(weights, &offload.weights, &offload.groups);
        uploaded.map_err(|source| self.error("loading weights", source))
    }

    /// Identity of its backend.
    pub(super) fn id(&self) -> BackendId {
        self.opened.id
    }

    /// The device.
    pub(super) fn device(&self) -> &Arc<dyn Device> {
        &self.opened.device
    }

    /// Whether the weight `name` lies on the device.
    pub(super) fn has(&self, name: &str) -> bool {
        self.weights.contains(name)
    }

    /// A backend for one context.
    pub(super) fn backend(&self) -> Result<Box<dyn Backend>, EngineError> {
        let backend = self.device().clone().backend();
        let backend = backend.map_err(|source| self.error("making a backend for a context", source))?;
        Ok(match self.fault_after {
            Some(n_splits) => Box::new(FaultDrill::new(backend, self.device().clone(), n_splits)),
            None => backend,
        })
    }

    fn error(&self, what: &'static str, source: BackendError) -> EngineError {
        EngineError::Device { what, backend: self.id(), source: Box::new(source) }
    }
}

/// Why not even one block fits.
fn why_no_block(planner: &Planner<'_>) -> String {
    if let Some((got, max)) = planner.region_too_large() {
        let (got, max) = (mib(got), mib(max));
        return format!(
            "keys or values of a layer need {got:.1} MiB in one piece, which may be {max:.1} MiB"
        );
    }
    let (one, budget) = (planner.need(1), planner.budget_bytes.map_or(f64::INFINITY, mib));
    let total = mib(one.total_bytes());
    format!("one block needs {total:.1} MiB of its memory ({one}), which may be {budget:.1} MiB")
}

/// Why no device that the build has is used.
fn why_no_device(options: &DeviceOptions) -> String {
    let reason = |backend: &BuiltBackend| match options.registry.availability(backend) {
        Availability::Unavailable(reason) => reason,
        Availability::OnlyNamed(reason) => format!("{reason}, so it is used only if it is named"),
        Availability::Available => "it is not among the backends that may be used".to_string(),
    };
    let devices = options.registry.backends().iter().filter(|backend| backend.open.is_some());
    let reasons: Vec<String> =
        devices.map(|backend| format!("{}: {}", backend.known.label, reason(backend))).collect();
    if reasons.is_empty() { "this build has no GPU backend".to_string() } else { reasons.join("; ") }
}

/// The most preferred device of the fence that can be opened.
fn open(options: &DeviceOptions, warnings: &mut Vec<String>) -> Result<Option<OpenedDevice>, EngineError> {
    if options.gpu_layers == GpuLayers::Count(0) {
        return Ok(None);
    }
    if options.opened.is_some() {
        return Ok(options.opened.clone());
    }
    for backend in options.registry.backends() {
        let id = backend.known.id;
        let Some(open) = backend.open.filter(|_| options.fence & id.bit() != 0) else { continue };
        match open() {
            Ok(device) => return Ok(Some(OpenedDevice { id, device })),
            Err(source) if options.is_named => {
                let what = "opening a device";
                return Err(EngineError::Device { what, backend: id, source: Box::new(source) });
            }
            Err(source) => warnings.push(format!("{id} is not used: {source}")),
        }
    }
    if let GpuLayers::Count(_) = options.gpu_layers {
        warnings.push(format!("the CPU runs all layers, as there is no device: {}", why_no_device(options)));
    }
    Ok(None)
}
