//! A loaded model.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::device::LoadedDevice;
use super::{Context, ContextOptions, DeviceOptions, EngineError, prefetch, template};
use crate::backends::cpu::{CpuBackend, CpuOptions};
use crate::gguf::{Gguf, Metadata, OpenOptions};
use crate::graph::{BackendId, BackendSet, CParams, DeviceInfo, Policy};
use crate::models::Model;
use crate::tensor::TensorMap;
use crate::text::{ChatTemplate, TemplateError, Tokenizer, Vocab};
use crate::threads::{ThreadPool, threads_for};
use crate::vec_ops::Isa;

/// Settings of a loaded model.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Map the file instead of reading it.
    pub mmap: bool,
    /// Bring a mapped file into memory beforehand, in huge pages where there is room; of use if the model is
    /// going to run.
    pub prefetch: bool,
    /// Worker threads, of which no more are started than can run at the same time; `None` for what the
    /// machine suggests.
    pub n_threads: Option<usize>,
    /// Instruction set of the CPU kernels; `None` for the best that runs here.
    pub isa: Option<Isa>,
    /// The device that may take part.
    pub device: DeviceOptions,
    /// A chat template instead of the file's.
    pub chat_template: Option<String>,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            mmap: true,
            prefetch: true,
            n_threads: None,
            isa: None,
            device: DeviceOptions::default(),
            chat_template: None,
        }
    }
}

/// A loaded model with its tokenizer and chat template. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    gguf: Gguf,
    model: Model,
    tokenizer: Tokenizer,
    template: Option<Result<ChatTemplate, TemplateError>>,
    tensors: Arc<TensorMap>,
    pool: Arc<ThreadPool>,
    isa: Isa,
    device: Option<LoadedDevice>,
    policy: Policy,
    warnings: Vec<String>,
}

impl Engine {
    /// Loads a GGUF file, or all files of a split one. If they are mapped, no weight is read yet but those
    /// that a device takes, which are copied to it.
    pub fn load(path: &Path, options: &EngineOptions) -> Result<Engine, EngineError> {
        let gguf = Gguf::open(path, &OpenOptions { mmap: options.mmap })?;
        // The vocabulary takes most of the time that loading takes, so the rest is done beside it.
        let (tokenizer, weights) = std::thread::scope(|scope| {
            let tokenizer = || tokenizer(path, gguf.metadata());
            let beside = std::thread::Builder::new().spawn_scoped(scope, tokenizer);
            let weights = LoadedWeights::load(path, &gguf, options);
            // Where no thread can be had, it is done after the rest.
            let tokenizer = match beside {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => tokenizer(),
            };
            (tokenizer, weights)
        });
        let tokenizer = tokenizer?;
        let LoadedWeights { model, tensors, device, warnings: device_warnings } = weights?;
        let (n_vocab, n_tokens) = (model.hparams.n_vocab, tokenizer.n_vocab());
        if n_vocab != n_tokens {
            return Err(EngineError::VocabSize { path: path.to_path_buf(), n_vocab, n_tokens });
        }
        let template = template::load(gguf.metadata(), &tokenizer, options.chat_template.as_deref())?;
        let mut warnings = tokenizer.warnings().to_vec();
        warnings.extend(template::warning(template.as_ref()));
        warnings.extend(device_warnings);
        let pool = Arc::new(ThreadPool::new(threads_for(options.n_threads))?);
        let isa = options.isa.unwrap_or_else(Isa::best);
        let policy = policy(&model, device.as_ref());
        let tensors = Arc::new(tensors);
        let shared =
            Shared { gguf, model, tokenizer, template, tensors, pool, isa, device, policy, warnings };
        Ok(Engine { shared: Arc::new(shared) })
    }

    /// A context with its own keys and values.
    pub fn context(&self, options: &ContextOptions) -> Result<Context, EngineError> {
        Context::new(self.clone(), options)
    }

    /// The file: metadata, tensors, paths.
    pub fn gguf(&self) -> &Gguf {
        &self.shared.gguf
    }

    /// Architecture, hyper-parameters and weights.
    pub fn model(&self) -> &Model {
        &self.shared.model
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.shared.tokenizer
    }

    /// The chat template: the caller's, or the file's, which may be unusable; `None` if there is neither.
    pub fn template(&self) -> Option<Result<&ChatTemplate, &TemplateError>> {
        self.shared.template.as_ref().map(Result::as_ref)
    }

    /// Worker threads.
    pub fn n_threads(&self) -> usize {
        self.shared.pool.n_workers()
    }

    /// Instruction set of the CPU kernels.
    pub fn isa(&self) -> Isa {
        self.shared.isa
    }

    /// What the user should know about the file.
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// What assignment follows.
    pub(super) fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// Who computes what.
    pub fn placement(&self) -> Placement<'_> {
        let device = self.device().map(|device| (device.id(), device.device().info()));
        let Policy { gpu_layers, n_layer, .. } = *self.policy();
        Placement { device, gpu_layers, n_layer }
    }

    /// The device that takes part.
    pub(super) fn device(&self) -> Option<&LoadedDevice> {
        self.shared.device.as_ref()
    }

    /// The worker threads themselves.
    pub(super) fn pool(&self) -> &ThreadPool {
        &self.shared.pool
    }

    /// The backends of one context.
    pub(super) fn backends(&self) -> Result<BackendSet, EngineError> {
        let mut set = BackendSet::new();
        set.insert(BackendId::CPU, Box::new(self.cpu_backend()));
        if let Some(device) = self.device() {
            set.insert(device.id(), device.backend()?);
            if let Some(budget_bytes) = device.budget_bytes {
                set.set_budget(device.id(), budget_bytes);
            }
        }
        Ok(set)
    }

    /// The host's processor as a backend with all weights.
    pub(super) fn cpu_backend(&self) -> CpuBackend {
        let Shared { tensors, pool, isa, .. } = &*self.shared;
        CpuBackend::new(CpuOptions { weights: tensors.clone(), pool: pool.clone(), isa: *isa })
    }

    /// The graph-relevant settings of a context of `n_ctx` tokens.
    pub(super) fn cparams(&self, n_ctx: usize, options: &ContextOptions) -> CParams {
        let Policy { fence, gpu_layers, .. } = *self.policy();
        CParams {
            n_ctx,
            n_seq_max: options.n_seq_max,
            flash_attn: true,
            gpu: gpu_layers > 0,
            fuse_qkv: options.fuse_qkv,
            fuse_ffn: options.fuse_ffn,
            gpu_layers,
            kv_format: options.kv_format,
            backends: fence,
        }
    }
}

fn tokenizer(path: &Path, metadata: &Metadata) -> Result<Tokenizer, EngineError> {
    let tokenizer = Vocab::from_metadata(metadata).and_then(Tokenizer::new);
    tokenizer.map_err(|source| EngineError::Tokenizer { path: path.to_path_buf(), source: source.into() })
}

/// What is loaded beside the tokenizer.
struct LoadedWeights {
    model: Model,
    tensors: TensorMap,
    device: Option<LoadedDevice>,
    warnings: Vec<String>,
}

impl LoadedWeights {
    fn load(path: &Path, gguf: &Gguf, options: &EngineOptions) -> Result<LoadedWeights, EngineError> {
        let tensors = gguf.tensors()?;
        let lookup = |name: &str| tensors.get(name).map(|tensor| (tensor.shape, tensor.dtype));
        let model = Model::load(gguf.metadata(), &lookup);
        let model =
            model.map_err(|source| EngineError::Model { path: path.to_path_buf(), source: source.into() })?;
        let mut warnings = Vec::new();
        let planned = LoadedDevice::plan(&options.device, &model, &tensors, &mut warnings)?;
        if options.prefetch && options.mmap {
            // What lies on a device is read once, to be copied there.
            let on_device = |name: &str| planned.as_ref().is_some_and(|(device, _)| device.has(name));
            prefetch::start(&tensors, &|name| !on_device(name));
        }
        let device = match planned {
            Some((device, offload)) => {
                device.upload(&offload, &tensors)?;
                Some(device)
            }
            None => None,
        };
        Ok(LoadedWeights { model, tensors, device, warnings })
    }
}

/// What assignment follows: the offload plan's number of blocks, and no backend but the CPU and the device.
fn policy(model: &Model, device: Option<&LoadedDevice>) -> Policy {
    let n_layer = model.hparams.n_layer;
    match device {
        None => Policy::cpu_only(n_layer),
        Some(device) => Policy {
            order: vec![device.id(), BackendId::CPU],
            fence: device.id().bit() | BackendId::CPU.bit(),
            gpu_layers: device.gpu_layers,
            n_layer,
        },
    }
}

/// Who computes what: prints `CPU`, `Vulkan`, or `Vulkan 8/24 layers`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement<'a> {
    /// The device that takes part.
    pub device: Option<(BackendId, &'a DeviceInfo)>,
    /// Blocks that run on it.
    pub gpu_layers: usize,
    /// Blocks of the model.
    pub n_layer: usize,
}

impl fmt::Display for Placement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placement { device, gpu_layers, n_layer } = *self;
        match device {
            None => write!(f, "{}", BackendId::CPU),
            Some((id, _)) if gpu_layers >= n_layer => write!(f, "{id}"),
            Some((id, _)) => write!(f, "{id} {gpu_layers}/{n_layer} layers"),
        }
    }
}
