//! From arguments and environment to a model that is ready to run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::args::{ContextArgs, EngineArgs, KvArg, MAX_THREADS, ModelArg, ModelFlags, SamplingArgs};
use super::error::CliError;
use super::interrupt::Interrupt;
use super::output::warn;
use super::progress::Bars;
use crate::backends;
use crate::config::Config;
use crate::engine::{ContextOptions, DeviceOptions, Engine, EngineOptions, GpuLayers, SamplerOptions};
use crate::graph::{BackendId, KvFormat, Registry};
use crate::store::{Endpoints, ModelRef, PullOptions, Pulled, Puller, Store, StoreError};
use crate::vec_ops::Isa;

/// What every subcommand is given.
pub(super) struct App {
    pub(super) config: Config,
    pub(super) interrupt: Interrupt,
}

impl App {
    /// The folder of models.
    pub(super) fn store(&self) -> Result<Store, CliError> {
        let dir = self.config.models_dir.as_ref().ok_or(StoreError::NoFolder)?;
        Ok(Store::new(dir))
    }

    /// Finds a model, and downloads it if need be.
    pub(super) fn pull(&self, reference: &ModelRef, offline: bool) -> Result<Pulled, CliError> {
        if let ModelRef::Path(_) = reference {
            // A file of the user's own needs no store.
            let path = Store::new(PathBuf::new()).find(reference)?;
            return Ok(Pulled { path: path.unwrap_or_default(), downloaded: false });
        }
        let store = self.store()?;
        let bars = Bars::new(&self.config);
        let mut endpoints = Endpoints { hub_token: self.config.hf_token.clone(), ..Endpoints::default() };
        if let Some(hub) = &self.config.hf_endpoint {
            endpoints.hub = hub.clone();
        }
        let options = PullOptions { endpoints, offline, cancel: self.interrupt.flag(), progress: &bars };
        Ok(Puller::new(&store, options).ensure(reference)?)
    }

    /// The file of the model that the arguments name, downloaded if need be.
    pub(super) fn model_path(&self, model: &ModelArg) -> Result<PathBuf, CliError> {
        if let (Some(_), Some(second)) = (&model.flags.model, &model.positional) {
            return Err(CliError::usage(
                "MODEL",
                "one model, by position or by -m",
                format!("also {}", second.to_string_lossy()),
            ));
        }
        let named = model.positional.as_deref().or(model.flags.model.as_deref());
        self.named_model_path(named, &model.flags)
    }

    /// [`App::model_path`] for a model that is picked out already; the default model if there is none.
    pub(super) fn named_model_path(
        &self,
        named: Option<&OsStr>,
        flags: &ModelFlags,
    ) -> Result<PathBuf, CliError> {
        let reference = match named {
            Some(text) => ModelRef::parse(text)?,
            None => ModelRef::default_model(),
        };
        Ok(self.pull(&reference, flags.offline)?.path)
    }

    /// The backends of this build, without those that the environment switches off.
    pub(super) fn registry(&self) -> Registry {
        let mut registry = backends::builtin();
        let config = &self.config;
        for (disabled, id, name) in [
            (config.disable_metal, BackendId::METAL, "MINFER_DISABLE_MPS"),
            (config.disable_cuda, BackendId::CUDA, "MINFER_DISABLE_CUDA"),
            (config.disable_vulkan, BackendId::VULKAN, "MINFER_DISABLE_VULKAN"),
        ] {
            if disabled {
                registry.switch_off(id, format!("{name} is set"));
            }
        }
        registry
    }

    /// The instruction set that the environment asks for.
    pub(super) fn isa(&self) -> Result<Option<Isa>, CliError> {
        let Some(name) = &self.config.isa else { return Ok(None) };
        let available = Isa::available();
        let found = available.iter().find(|isa| isa.name().eq_ignore_ascii_case(name));
        let names = || available.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
        found.copied().map(Some).ok_or_else(|| {
            CliError::usage("MINFER_ISA", format!("one of {} on this machine", names()), name.clone())
        })
    }

    /// Worker threads that the user asks for; `None` for what suits the machine.
    pub(super) fn n_threads(&self, asked: Option<i64>) -> Result<Option<usize>, CliError> {
        let n_threads = asked.unwrap_or(self.config.threads);
        match n_threads {
            -1 | 0 => Ok(None),
            1..=MAX_THREADS => Ok(usize::try_from(n_threads).ok()),
            other => {
                let expected = format!("a number from -1 to {MAX_THREADS}");
                Err(CliError::usage("MINFER_THREADS", expected, other.to_string()))
            }
        }
    }

    /// What the engine is told, from flags first and the environment second. `context` is the one that will
    /// be opened.
    pub(super) fn engine_options(
        &self,
        args: &EngineArgs,
        context: ContextOptions,
    ) -> Result<EngineOptions, CliError> {
        Ok(EngineOptions {
            mmap: !args.no_mmap,
            n_threads: self.n_threads(args.threads)?,
            isa: self.isa()?,
            device: self.device_options(args, context)?,
            ..EngineOptions::default()
        })
    }

    fn device_options(&self, args: &EngineArgs, context: ContextOptions) -> Result<DeviceOptions, CliError> {
        let named = args.backend.as_deref().or(self.config.backends.as_deref());
        let is_named = named.is_some_and(|names| names.split(',').any(|name| !name.trim().is_empty()));
        let registry = self.registry();
        let fence = match (is_named, args.gpu_layers) {
            // Nobody asks for a device, so none is looked for.
            (false, GpuLayers::Count(0)) => BackendId::CPU.bit(),
            _ => registry.fence(named)?,
        };
        let memory_mib = args.gpu_memory.or(self.config.gpu_memory);
        let bytes = |mib: u64| usize::try_from(mib).unwrap_or(usize::MAX).saturating_mul(1 << 20);
        Ok(DeviceOptions {
            registry,
            fence,
            is_named,
            opened: None,
            gpu_layers: args.gpu_layers,
            memory_bytes: memory_mib.map(bytes),
            context,
            fault_after: self.config.gpu_fault.filter(|n_splits| *n_splits > 0),
        })
    }

    /// Loads a model and passes its warnings on.
    pub(super) fn load(&self, path: &Path, options: &EngineOptions) -> Result<Engine, CliError> {
        let engine = Engine::load(path, options)?;
        engine.warnings().iter().for_each(|warning| warn(warning));
        Ok(engine)
    }

    /// Settings of the context that `args` lead to, as far as they are known before the model is.
    pub(super) fn expected_context(&self, args: &ContextArgs) -> ContextOptions {
        self.context_options(args.ctx_size, args.kv)
    }

    /// Settings of a context of `n_ctx` tokens.
    pub(super) fn context_options(&self, n_ctx: Option<usize>, kv: KvArg) -> ContextOptions {
        ContextOptions {
            n_ctx,
            kv_format: match kv {
                KvArg::F32 => KvFormat::F32,
                KvArg::F16 => KvFormat::F16,
                KvArg::Q8_0 => KvFormat::Q8_0,
            },
            fuse_qkv: !self.config.no_fuse_qkv,
            fuse_ffn: !self.config.no_fuse_ffn,
            ..ContextOptions::default()
        }
    }
}

impl ContextArgs {
    /// Tokens of context: what was asked for, or what `n_prompt` and `n_more` tokens need, though not more
    /// than the model was trained with unless the prompt alone is longer. `None` for the engine's default.
    pub(super) fn n_ctx(&self, n_prompt: usize, n_more: Option<usize>, n_ctx_train: usize) -> Option<usize> {
        if self.ctx_size.is_some() {
            return self.ctx_size;
        }
        let needed = n_more.map(|n_more| n_prompt.saturating_add(n_more))?;
        Some(needed.min(n_ctx_train.max(n_prompt + 1)))
    }
}

impl SamplingArgs {
    /// The sampler's settings; a negative seed is drawn anew.
    pub(super) fn options(&self) -> SamplerOptions {
        SamplerOptions {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            typical_p: self.typical_p,
            repeat_penalty: self.repeat_penalty,
            penalty_last_n: self.repeat_last_n,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            seed: u64::try_from(self.seed).unwrap_or_else(|_| random_seed()),
            ..SamplerOptions::default()
        }
    }
}

/// A seed that differs from run to run: the standard library seeds its hash maps from the system.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // Small enough to be typed again and to survive JSON readers that hold numbers as f64.
    RandomState::new().build_hasher().finish() >> 32
}
