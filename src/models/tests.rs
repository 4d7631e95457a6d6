//! Graphs and loading checks on models that exist as names and shapes only.

use std::collections::BTreeMap;

use super::{HParams, Model, ModelError};
use crate::gguf::{Metadata, Value};
use crate::graph::{
    BackendId, BuildQuery, CParams, Graph, GraphParams, GraphType, KvFormat, NoDevice, Node, Op, OpKind,
    WeightRef,
};
use crate::tensor::{DType, Shape};

mod golden;
mod graphs;
mod loading;

/// A file without data: metadata and tensor shapes.
struct File {
    metadata: Metadata,
    tensors: BTreeMap<String, (Shape, DType)>,
}

/// Sizes of a [`File`].
#[derive(Clone, Copy)]
struct Sizes {
    n_vocab: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_head_kv: usize,
    head_dim: usize,
    n_ff: usize,
}

const SMALL: Sizes =
    Sizes { n_vocab: 40, n_embd: 16, n_layer: 2, n_head: 4, n_head_kv: 2, head_dim: 4, n_ff: 24 };
const QWEN2_500M: Sizes =
    Sizes { n_vocab: 151936, n_embd: 896, n_layer: 24, n_head: 14, n_head_kv: 2, head_dim: 64, n_ff: 4864 };

impl File {
    fn new(arch: &str, sizes: Sizes) -> File {
        let Sizes { n_vocab, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff } = sizes;
        let mut file = File { metadata: Metadata::default(), tensors: BTreeMap::new() };
        file.metadata.insert("general.architecture", Value::Str(arch.to_string()));
        for (key, value) in [
            ("context_length", 512),
            ("embedding_length", n_embd),
            ("block_count", n_layer),
            ("feed_forward_length", n_ff),
            ("attention.head_count", n_head),
            ("attention.head_count_kv", n_head_kv),
            ("attention.key_length", head_dim),
            ("attention.value_length", head_dim),
        ] {
            file.set(&format!("{arch}.{key}"), Value::U32(value as u32));
        }
        file.set(&format!("{arch}.attention.layer_norm_rms_epsilon"), Value::F32(1e-6));
        file.matrix("token_embd.weight", n_embd, n_vocab);
        file.vector("output_norm.weight", n_embd);
        for il in 0..n_layer {
            let name = |part: &str| format!("blk.{il}.{part}.weight");
            for (part, n_in, n_out) in [
                ("attn_q", n_embd, head_dim * n_head),
                ("attn_k", n_embd, head_dim * n_head_kv),
                ("attn_v", n_embd, head_dim * n_head_kv),
                ("attn_output", head_dim * n_head, n_embd),
                ("ffn_gate", n_embd, n_ff),
                ("ffn_up", n_embd, n_ff),
                ("ffn_down", n_ff, n_embd),
            ] {
                file.matrix(&name(part), n_in, n_out);
            }
            file.vector(&name("attn_norm"), n_embd);
            file.vector(&name("ffn_norm"), n_embd);
            if arch == "qwen3" {
                file.vector(&name("attn_q_norm"), head_dim);
                file.vector(&name("attn_k_norm"), head_dim);
            }
            if arch == "qwen2" {
                file.vector(&format!("blk.{il}.attn_q.bias"), head_dim * n_head);
                file.vector(&format!("blk.{il}.attn_k.bias"), head_dim * n_head_kv);
                file.vector(&format!("blk.{il}.attn_v.bias"), head_dim * n_head_kv);
            }
        }
        file
    }

    fn set(&mut self, key: &str, value: Value) {
        self.metadata.insert(key, value);
    }

    fn matrix(&mut self, name: &str, n_in: usize, n_out: usize) {
        self.tensors.insert(name.to_string(), (Shape::d2(n_in, n_out), DType::Q8_0));
    }

    fn vector(&mut self, name: &str, n: usize) {
        self.tensors.insert(name.to_string(), (Shape::d1(n), DType::F32));
    }

    fn load(&self) -> Result<Model, ModelError> {
        Model::load(&self.metadata, &|name| self.tensors.get(name).copied())
    }

    fn model(&self) -> Model {
        self.load().expect("the file is complete")
    }

    fn refusal(&self) -> String {
        self.load().map(|_| ()).expect_err("the file is wrong").to_string()
    }
}

fn params(n_tokens: usize, n_out: usize) -> GraphParams {
    let cparams = CParams {
        n_ctx: 64,
        n_seq_max: 2,
        flash_attn: true,
        gpu: false,
        fuse_qkv: true,
        fuse_ffn: true,
        gpu_layers: 0,
        kv_format: KvFormat::F16,
        backends: BackendId::CPU.bit(),
    };
    let gtype = if n_tokens == 1 { GraphType::Decode } else { GraphType::Prefill };
    GraphParams { n_tokens, n_out, gtype, cparams, weights_version: 0 }
}

fn build(model: &Model, params: &GraphParams) -> Graph {
    model.build(params, &NoDevice).expect("the graph is well-formed")
}

fn count(graph: &Graph, kind: OpKind) -> usize {
    graph.nodes.iter().filter(|node| node.op.kind() == kind).count()
}

fn node<'g>(graph: &'g Graph, name: &str) -> &'g Node {
    graph.nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("no node {name}"))
}

/// A device that takes the listed ops whatever their weights, fused products only if they include the norm,
/// or only if they do not.
struct Claims {
    ops: &'static [OpKind],
    with_norm: bool,
}

impl BuildQuery for Claims {
    fn device_for(&self, _: Option<u32>, op: &Op, _: &[&WeightRef]) -> Option<BackendId> {
        let form_fits = match op {
            Op::FusedQKV(product) => product.norm.is_some() == self.with_norm,
            Op::FusedFFN(product) => product.norm.is_some() == self.with_norm,
            _ => true,
        };
        (form_fits && self.ops.contains(&op.kind())).then_some(BackendId::VULKAN)
    }
}

const ALL_FUSED: Claims = Claims { ops: OpKind::ALL, with_norm: true };
