//! Models on the GPU of this machine, which may be a program on its processor.

use std::path::Path;

use minfer::backends::builtin;
use minfer::engine::{DeviceOptions, Engine, EngineOptions, GpuLayers};
use minfer::graph::{BackendId, BuiltBackend};

/// The GPU backend of this build.
pub fn built() -> BuiltBackend {
    let registry = builtin();
    *registry.backends().iter().find(|built| built.open.is_some()).expect("the build has a GPU backend")
}

/// Options to load a model with so many blocks on the GPU.
pub fn options(gpu_layers: GpuLayers) -> EngineOptions {
    let fence = BackendId::CPU.bit() | built().known.id.bit();
    let device = DeviceOptions { fence, is_named: true, gpu_layers, ..DeviceOptions::default() };
    EngineOptions { n_threads: Some(2), device, ..EngineOptions::default() }
}

/// A model with so many blocks on the GPU.
pub fn load(path: &Path, gpu_layers: GpuLayers) -> Engine {
    Engine::load(path, &options(gpu_layers)).unwrap_or_else(|error| {
        panic!("{}: {error}\n`cargo xtask setup` installs a software GPU where it can", path.display())
    })
}
