//! Whole models on two backends at once: the CPU's kernels under two ids, each with a pool and KV regions of its
//! own. Wherever the nodes go, the results are those of one backend alone, and exactly the planned copies are made.

mod support;

use std::sync::Arc;

use minfer::backends::cpu::{CpuBackend, CpuOptions};
use minfer::gguf::{Gguf, OpenOptions};
use minfer::graph::*;
use minfer::models::Model;
use minfer::tensor::TensorMap;
use minfer::threads::ThreadPool;
use minfer::vec_ops::Isa;
use support::reference;

/// An id other than the CPU's, to stand for a device.
const DEVICE: BackendId = BackendId::VULKAN;
const N_TOKENS: usize = 37;
const N_CTX: usize = 64;

/// A model with what its backends need.
struct Loaded {
    model: Model,
    weights: Arc<TensorMap>,
    pool: Arc<ThreadPool>,
}

impl Loaded {
    fn tiny(name: &str) -> Loaded {
        let path = reference(&format!("tiny/{name}.gguf"));
        let gguf = Gguf::open(&path, &OpenOptions { mmap: true }).expect("it opens");
        let weights = gguf.tensors().expect("its tensors are whole");
        let lookup = |name: &str| weights.get(name).map(|tensor| (tensor.shape, tensor.dtype));
        let model = Model::load(gguf.metadata(), &lookup).expect("it is a model");
        let pool = Arc::new(ThreadPool::new(2).expect("threads start"));
        Loaded { model, weights: Arc::new(weights), pool }
    }

    fn backend(&self) -> Box<CpuBackend> {
        let (weights, pool) = (self.weights.clone(), self.pool.clone());
        Box::new(CpuBackend::new(CpuOptions { weights, pool, isa: Isa::best() }))
    }

    fn backends(&self) -> BackendSet {
        let mut set = BackendSet::new();
        set.insert(BackendId::CPU, self.backend());
        set.insert(DEVICE, self.backend());
        set
    }

    fn params(&self, n_tokens: usize, gpu_layers: usize) -> GraphParams {
        let cparams = CParams {
            n_ctx: N_CTX,
            n_seq_max: 1,
            flash_attn: true,
            gpu: gpu_layers > 0,
            fuse_qkv: true,
            fuse_ffn: true,
            gpu_layers,
            kv_format: KvFormat::F16,
            backends: u32::MAX,
        };
        let gtype = if n_tokens == 1 { GraphType::Decode } else { GraphType::Prefill };
        GraphParams { n_tokens, n_out: 1, gtype, cparams, weights_version: 0 }
    }

    fn policy(&self, gpu_layers: usize) -> Policy {
        let n_layer = self.model.hparams.n_layer;
        Policy { order: vec![DEVICE, BackendId::CPU], fence: u32::MAX, gpu_layers, n_layer }
    }

    /// The logits after a prompt and after one more token, with `gpu_layers` blocks on the device and `place` having
    /// a say on every node first; and the number of splits of the prompt's graph.
    fn logits(
        &self,
        gpu_layers: usize,
        place: &dyn Fn(&Node) -> Option<BackendId>,
    ) -> (Vec<Vec<f32>>, usize) {
        let (mut set, policy) = (self.backends(), self.policy(gpu_layers));
        let (mut rows, mut n_splits) = (Vec::new(), Vec::new());
        for (first, n_tokens) in [(0, N_TOKENS), (N_TOKENS, 1)] {
            let params = self.params(n_tokens, gpu_layers);
            let mut graph =
                self.model.build(&params, &AssignQuery { set: &set, policy: &policy }).expect("built");
            for node in &mut graph.nodes {
                node.backend = place(node);
            }
            let mut executable = Executable::compile(graph, &mut set, &policy).expect("compiled");
            let mut copies = CountCopies::default();
            executable.run(&mut set, &Step::new(first, n_tokens).inputs(), &mut copies).expect("it runs");
            assert_eq!(copies.0, executable.copies(), "the copies made are the copies planned");
            let mut row = Vec::new();
            executable.read_output(&mut set, 0, &mut row).expect("it has an output");
            rows.push(row);
            n_splits.push(executable.splits().len());
        }
        (rows, n_splits[0])
    }
}

/// The inputs of one sequence that lies in pages 1 and 0.
struct Step {
    token_ids: Vec<i32>,
    positions: Vec<i32>,
    cells: Vec<i32>,
    seq_ids: Vec<i32>,
    tail_ids: Vec<i32>,
}

impl Step {
    fn new(first: usize, n_tokens: usize) -> Step {
        let positions: Vec<i32> = (first as i32..(first + n_tokens) as i32).collect();
        let page = PAGE_TOKENS as i32;
        Step {
            token_ids: positions.iter().map(|position| position * 7 % 300).collect(),
            cells: positions.iter().map(|p| if *p < page { p + page } else { p - page }).collect(),
            positions,
            seq_ids: vec![0; n_tokens],
            tail_ids: vec![n_tokens as i32 - 1],
        }
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs {
            token_ids: &self.token_ids,
            positions: &self.positions,
            cells: &self.cells,
            seq_ids: &self.seq_ids,
            kv_pages: &[1, 0],
            tail_ids: &self.tail_ids,
        }
    }
}

#[derive(Default)]
struct CountCopies(Vec<ValueCopy>);

impl Observer for CountCopies {
    fn copied(&mut self, copy: &ValueCopy) {
        self.0.push(*copy);
    }
}

const MODELS: [&str; 3] = ["qwen2-tied-q4_0", "qwen3-untied-f16", "llama-untied-f32-bos"];

#[test]
fn any_number_of_offloaded_blocks_gives_the_bits_of_one_backend() {
    for name in MODELS {
        let loaded = Loaded::tiny(name);
        let n_layer = loaded.model.hparams.n_layer;
        let (alone, n_splits) = loaded.logits(0, &|_| None);
        assert_eq!(n_splits, 1, "{name}");
        for gpu_layers in 1..=n_layer {
            let (mixed, n_splits) = loaded.logits(gpu_layers, &|_| None);
            assert_eq!(mixed, alone, "{name}: {gpu_layers} of {n_layer} blocks");
            assert_eq!(n_splits, if gpu_layers == n_layer { 1 } else { 3 }, "{name}: {gpu_layers} blocks");
        }
    }
}

#[test]
fn explicit_placements_of_any_node_give_the_bits_of_one_backend() {
    for name in MODELS {
        let loaded = Loaded::tiny(name);
        let (alone, _) = loaded.logits(0, &|_| None);
        for (what, kind) in
            [("matmuls", OpKind::MatMul), ("norms", OpKind::RmsNorm), ("attention", OpKind::Attn)]
        {
            let place = |node: &Node| (node.op.kind() == kind).then_some(DEVICE);
            let (mixed, n_splits) = loaded.logits(0, &place);
            assert_eq!(mixed, alone, "{name}: {what} on the device");
            assert!(n_splits > 3, "{name}: {what}: {n_splits} splits");
        }
        let every_third = |node: &Node| {
            let free = !matches!(node.op.storage(), Storage::Kv(_) | Storage::Alias { .. });
            (free && node.op.kind() != OpKind::Attn && node.id.index().is_multiple_of(3)).then_some(DEVICE)
        };
        assert_eq!(loaded.logits(0, &every_third).0, alone, "{name}: every third node on the device");
    }
}
