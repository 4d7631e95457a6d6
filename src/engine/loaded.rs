//! A loaded model.

use std::path::Path;
use std::sync::Arc;

use super::{Context, ContextOptions, EngineError, prefetch, template};
use crate::backends;
use crate::backends::cpu::{CpuBackend, CpuOptions};
use crate::gguf::{Gguf, Metadata, OpenOptions};
use crate::graph::{BackendId, BackendSet, CParams, Policy};
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
    /// Bring a mapped file into memory beforehand, in huge pages where there is room; of use if the model is going to run.
    pub prefetch: bool,
    /// Worker threads, of which no more are started than can run at the same time; `None` for what the machine suggests.
    pub n_threads: Option<usize>,
    /// Instruction set of the CPU kernels; `None` for the best that runs here.
    pub isa: Option<Isa>,
    /// Backends that may be used, as the registry's fence gives them: bit `id` stands for backend `id`.
    pub fence: u32,
    /// Blocks `0..gpu_layers` run on a device.
    pub gpu_layers: usize,
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
            fence: BackendId::CPU.bit(),
            gpu_layers: 0,
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
    policy: Policy,
    warnings: Vec<String>,
}

impl Engine {
    /// Loads a GGUF file, or all files of a split one. If they are mapped, no weight is read yet.
    pub fn load(path: &Path, options: &EngineOptions) -> Result<Engine, EngineError> {
        let gguf = Gguf::open(path, &OpenOptions { mmap: options.mmap })?;
        // The vocabulary takes most of the time that loading takes, so the rest is done beside it.
        let (tokenizer, model) = std::thread::scope(|scope| {
            let tokenizer = scope.spawn(|| tokenizer(path, gguf.metadata()));
            let model = model(path, &gguf, options.prefetch && options.mmap);
            (tokenizer.join(), model)
        });
        let tokenizer = tokenizer.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let (model, tensors) = model?;
        let (n_vocab, n_tokens) = (model.hparams.n_vocab, tokenizer.n_vocab());
        if n_vocab != n_tokens {
            return Err(EngineError::VocabSize { path: path.to_path_buf(), n_vocab, n_tokens });
        }
        let template = template::load(gguf.metadata(), &tokenizer, options.chat_template.as_deref())?;
        let mut warnings = tokenizer.warnings().to_vec();
        warnings.extend(template::warning(template.as_ref()));
        let pool = Arc::new(ThreadPool::new(threads_for(options.n_threads))?);
        let isa = options.isa.unwrap_or_else(Isa::best);
        let n_layer = model.hparams.n_layer;
        let policy = Policy::new(&backends::builtin(), options.fence, options.gpu_layers, n_layer);
        let tensors = Arc::new(tensors);
        let shared = Shared { gguf, model, tokenizer, template, tensors, pool, isa, policy, warnings };
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

    /// The backends of one context.
    pub(super) fn backends(&self) -> BackendSet {
        let Shared { tensors, pool, isa, .. } = &*self.shared;
        let options = CpuOptions { weights: tensors.clone(), pool: pool.clone(), isa: *isa };
        let mut set = BackendSet::new();
        set.insert(BackendId::CPU, Box::new(CpuBackend::new(options)));
        set
    }

    /// The graph-relevant settings of a context of `n_ctx` tokens.
    pub(super) fn cparams(&self, n_ctx: usize, options: &ContextOptions) -> CParams {
        let Policy { fence, gpu_layers, .. } = *self.policy();
        CParams {
            n_ctx,
            n_seq_max: options.n_seq_max,
            flash_attn: true,
            gpu: gpu_layers > 0 && fence & !BackendId::CPU.bit() != 0,
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

fn model(path: &Path, gguf: &Gguf, will_run: bool) -> Result<(Model, TensorMap), EngineError> {
    let tensors = gguf.tensors()?;
    let lookup = |name: &str| tensors.get(name).map(|tensor| (tensor.shape, tensor.dtype));
    let model = Model::load(gguf.metadata(), &lookup);
    let model =
        model.map_err(|source| EngineError::Model { path: path.to_path_buf(), source: source.into() })?;
    if will_run {
        prefetch::start(&tensors);
    }
    Ok((model, tensors))
}
