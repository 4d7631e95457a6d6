//! Graphs and loading checks on models that exist as names and shapes only.

use std::collections::BTreeMap;

use super::{Architecture, HParams, Model, ModelError};
use crate::gguf::{Metadata, Value};
use crate::graph::{
    BackendId, BuildQuery, CParams, Census, Graph, GraphParams, GraphType, InputKind, KvFormat, Liveness,
    NoDevice, Node, Op, OpKind, WeightRef,
};
use crate::tensor::{DType, Shape};

mod golden;

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

/// A device that takes the listed ops whatever their weights.
struct Claims(&'static [OpKind]);

impl BuildQuery for Claims {
    fn device_for(&self, _: Option<u32>, op: &Op, _: &[&WeightRef]) -> Option<BackendId> {
        self.0.contains(&op.kind()).then_some(BackendId::VULKAN)
    }
}

const ALL_FUSED: Claims =
    Claims(&[OpKind::FusedQKV, OpKind::QkvBiasRopeStore, OpKind::FusedQkvNorm, OpKind::FusedFFN]);

#[test]
fn the_prefill_graph_of_the_500m_model_has_the_documented_census() {
    let graph = build(&File::new("qwen2", QWEN2_500M).model(), &params(512, 1));
    let expected = [
        (OpKind::MatMul, 169),
        (OpKind::RmsNorm, 49),
        (OpKind::RoPE, 48),
        (OpKind::Add, 48),
        (OpKind::Silu, 24),
        (OpKind::Mul, 24),
        (OpKind::Attn, 24),
        (OpKind::KvcacheStore, 24),
        (OpKind::KvcacheLoad, 24),
        (OpKind::GetRows, 3),
        (OpKind::Input, 6),
    ];
    for (kind, n) in expected {
        assert_eq!(count(&graph, kind), n, "{kind:?}");
    }
    let n_nodes: usize = expected.iter().map(|(_, n)| n).sum();
    assert_eq!(graph.nodes.len(), n_nodes);
    let census = Census::of(&graph, &Liveness::of(&graph)).to_string();
    assert!(!census.contains("orphaned"), "{census}");
}

#[test]
fn only_rows_that_need_logits_go_on_after_the_last_attention() {
    let graph = build(&File::new("qwen2", SMALL).model(), &params(7, 2));
    assert_eq!(node(&graph, "blk.1.attn_output").shape, Shape::d2(16, 7));
    let projected = node(&graph, "blk.1.attn_output_tail");
    assert_eq!(projected.shape, Shape::d2(16, 2));
    let residual = node(&graph, "blk.1.residual_tail");
    assert_eq!(graph.node(residual.src[0]).name, "blk.0.ffn_residual");
    assert_eq!(node(&graph, "blk.1.attn_residual").src, [projected.id, residual.id]);
    let act = node(&graph, "blk.1.ffn_act");
    assert_eq!(act.shape, Shape::d2(24, 2));
    assert_eq!(graph.node(act.src[1]).name, "blk.1.ffn_up");
    assert_eq!(graph.node(graph.outputs[0]).shape, Shape::d2(40, 2));
}

#[test]
fn a_graph_whose_rows_all_need_logits_has_no_tail() {
    let graph = build(&File::new("qwen2", SMALL).model(), &params(7, 7));
    assert_eq!(count(&graph, OpKind::GetRows), 1);
    let is_tail = |node: &Node| matches!(&node.op, Op::Input(input) if input.kind == InputKind::TailIds);
    assert!(!graph.nodes.iter().any(is_tail));
    assert_eq!(graph.node(graph.outputs[0]).shape, Shape::d2(40, 7));
}

#[test]
fn a_graph_without_output_ends_with_the_last_store() {
    let graph = build(&File::new("qwen3", SMALL).model(), &params(7, 0));
    assert!(graph.outputs.is_empty());
    assert_eq!(graph.nodes.last().expect("nodes").name, "blk.1.kv_store");
    assert_eq!(count(&graph, OpKind::Attn), 1);
    assert!(!graph.nodes.iter().any(|node| node.name == "blk.1.attn_q" || node.name == "output"));
}

#[test]
fn equal_params_give_equal_graphs() {
    let model = File::new("llama", SMALL).model();
    assert_eq!(build(&model, &params(5, 1)), build(&model, &params(5, 1)));
    assert_ne!(build(&model, &params(5, 1)).nodes, build(&model, &params(6, 1)).nodes);
}

#[test]
fn fused_nodes_are_present_exactly_when_gated_on() {
    let cases = [
        ("qwen2", OpKind::QkvBiasRopeStore),
        ("llama", OpKind::QkvBiasRopeStore),
        ("qwen3", OpKind::FusedQkvNorm),
    ];
    for (arch, epilogue) in cases {
        let model = File::new(arch, SMALL).model();
        for (fuse_qkv, fuse_ffn) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut params = params(1, 1);
            (params.cparams.fuse_qkv, params.cparams.fuse_ffn) = (fuse_qkv, fuse_ffn);
            let graph = model.build(&params, &ALL_FUSED).expect("well-formed");
            let n_qkv = if fuse_qkv { 2 } else { 0 };
            assert_eq!(count(&graph, OpKind::FusedQKV), n_qkv, "{arch}");
            assert_eq!(count(&graph, epilogue), n_qkv, "{arch}");
            assert_eq!(count(&graph, OpKind::KvcacheStore), 2 - n_qkv, "{arch}");
            assert_eq!(count(&graph, OpKind::FusedFFN), if fuse_ffn { 2 } else { 0 }, "{arch}");
            assert_eq!(count(&graph, OpKind::Silu), if fuse_ffn { 0 } else { 2 }, "{arch}");
        }
    }
}

#[test]
fn nothing_is_fused_without_a_device_or_with_more_than_one_token() {
    let model = File::new("qwen2", SMALL).model();
    let fused = [OpKind::FusedQKV, OpKind::QkvBiasRopeStore, OpKind::FusedQkvNorm, OpKind::FusedFFN];
    let graphs = [
        build(&model, &params(1, 1)),
        model.build(&params(2, 2), &ALL_FUSED).expect("well-formed"),
        model.build(&params(1, 1), &Claims(&[OpKind::FusedQKV])).expect("well-formed"),
    ];
    for graph in &graphs {
        assert!(fused.iter().all(|&kind| count(graph, kind) == 0));
    }
}

#[test]
fn the_fused_activation_is_the_first_half_of_the_product() {
    let graph = File::new("qwen2", SMALL).model().build(&params(1, 1), &ALL_FUSED).expect("well-formed");
    let act = node(&graph, "blk.0.ffn_act");
    assert_eq!((act.op.kind(), act.shape), (OpKind::View, Shape::d2(24, 1)));
    assert_eq!(graph.node(act.src[0]).shape, Shape::d2(48, 1));
    let wide = Sizes { n_ff: 16416, ..SMALL };
    let graph = File::new("qwen2", wide).model().build(&params(1, 1), &ALL_FUSED).expect("well-formed");
    assert_eq!(count(&graph, OpKind::FusedFFN), 0);
}

#[test]
fn half_of_the_biases_cannot_be_fused() {
    let mut file = File::new("qwen2", SMALL);
    file.tensors.remove("blk.0.attn_k.bias");
    let graph = file.model().build(&params(1, 1), &ALL_FUSED).expect("well-formed");
    assert_eq!(count(&graph, OpKind::FusedQKV), 1);
    assert_eq!(node(&graph, "blk.0.attn_q").meta.weights.len(), 2);
    assert_eq!(node(&graph, "blk.0.attn_k").meta.weights.len(), 1);
}

#[test]
fn rope_frequencies_are_read_where_the_architecture_has_them() {
    for (arch, n_weights) in [("llama", 1), ("qwen2", 0)] {
        let mut file = File::new(arch, SMALL);
        file.vector("rope_freqs.weight", 2);
        let graph = build(&file.model(), &params(3, 1));
        assert_eq!(node(&graph, "blk.0.attn_k_rope").meta.weights.len(), n_weights, "{arch}");
    }
}

#[test]
fn per_head_norms_come_before_rope() {
    let graph = build(&File::new("qwen3", SMALL).model(), &params(3, 1));
    let rope = node(&graph, "blk.0.attn_q_rope");
    let norm = graph.node(rope.src[0]);
    assert_eq!((norm.op.kind(), norm.name.as_str()), (OpKind::QkNorm, "blk.0.attn_q_norm"));
    assert_eq!(graph.node(norm.src[0]).name, "blk.0.attn_q");
}

#[test]
fn the_head_is_the_embedding_table_unless_the_file_has_its_own() {
    let mut file = File::new("llama", SMALL);
    assert!(file.model().weights.tied());
    file.matrix("output.weight", 16, 40);
    let model = file.model();
    assert!(!model.weights.tied());
    assert_eq!(&*node(&build(&model, &params(1, 1)), "output").meta.weights[0].name, "output.weight");
}

#[test]
fn impossible_hyper_parameters_are_refused_by_key_and_value() {
    let cases: &[(&str, Value, &str)] = &[
        ("attention.head_count", Value::U32(0), "expected at least 1, got 0"),
        (
            "attention.head_count_kv",
            Value::U32(0),
            "expected a divisor of llama.attention.head_count 4, got 0",
        ),
        (
            "attention.head_count_kv",
            Value::U32(3),
            "expected a divisor of llama.attention.head_count 4, got 3",
        ),
        ("attention.key_length", Value::U32(0), "expected at least 1, got 0"),
        ("block_count", Value::U32(0), "expected at least 1, got 0"),
        ("block_count", Value::U32(1), "expected 2, the number of blocks in the file, got 1"),
        ("block_count", Value::U32(3), "expected 2, the number of blocks in the file, got 3"),
        ("block_count", Value::U32(1 << 31), "expected 2, the number of blocks in the file, got 2147483648"),
        ("embedding_length", Value::U32(0), "expected at least 1, got 0"),
        ("embedding_length", Value::U32(15), "expected 16 as in token_embd.weight [16, 40], got 15"),
        ("feed_forward_length", Value::U32(0), "expected at least 1, got 0"),
        ("context_length", Value::U32(0), "expected at least 1, got 0"),
        ("vocab_size", Value::U32(41), "expected 40 as in token_embd.weight [16, 40], got 41"),
        ("rope.dimension_count", Value::U32(3), "expected an even number from 2 to 4, got 3"),
        ("rope.dimension_count", Value::U32(1024), "expected an even number from 2 to 4, got 1024"),
        ("rope.freq_base", Value::F32(0.0), "expected a positive number, got 0"),
        ("rope.freq_base", Value::F32(f32::NAN), "expected a positive number, got NaN"),
        ("rope.scaling.factor", Value::F32(-2.0), "expected a positive number, got -2"),
        (
            "attention.layer_norm_rms_epsilon",
            Value::F32(f32::NAN),
            "expected a number that is not negative, got NaN",
        ),
        ("expert_count", Value::U32(8), "expected 0: mixtures of experts are not supported, got 8"),
    ];
    for (key, value, message) in cases {
        let mut file = File::new("llama", SMALL);
        file.set(&format!("llama.{key}"), value.clone());
        assert_eq!(file.refusal(), format!("hyper-parameter llama.{key}: {message}"));
    }
}

#[test]
fn unknown_rope_scaling_is_refused_by_name() {
    let mut file = File::new("qwen2", SMALL);
    file.set("qwen2.rope.scaling.type", Value::Str("longrope".to_string()));
    assert!(
        file.refusal().ends_with("expected none, linear or yarn, got \"longrope\""),
        "{}",
        file.refusal()
    );
}

#[test]
fn missing_tensor_wrong_shape_and_unknown_architecture_are_three_messages() {
    let mut file = File::new("qwen2", SMALL);
    file.tensors.remove("blk.1.ffn_up.weight");
    assert_eq!(file.refusal(), "missing tensor blk.1.ffn_up.weight: architecture qwen2 needs it");
    file.matrix("blk.1.ffn_up.weight", 24, 16);
    assert_eq!(file.refusal(), "shape of tensor blk.1.ffn_up.weight: expected [16, 24], got [24, 16]");
    let file = File::new("foo9", SMALL);
    assert_eq!(file.refusal(), "unknown architecture \"foo9\": expected one of llama, qwen2, qwen3");
    assert_eq!(Architecture::supported().count(), 3);
}

#[test]
fn norms_that_are_not_f32_are_refused() {
    let mut file = File::new("qwen3", SMALL);
    file.tensors.insert("blk.0.attn_q_norm.weight".to_string(), (Shape::d1(4), DType::F16));
    assert_eq!(file.refusal(), "type of tensor blk.0.attn_q_norm.weight: expected F32, got F16");
}

#[test]
fn head_dim_is_its_own_key_or_follows_from_the_heads() {
    let HParams { head_dim, .. } = File::new("qwen3", Sizes { head_dim: 8, ..SMALL }).model().hparams;
    assert_eq!(head_dim, 8);
    let mut file = File::new("qwen2", SMALL);
    file.metadata.remove("qwen2.attention.key_length");
    file.metadata.remove("qwen2.attention.value_length");
    assert_eq!(file.model().hparams.head_dim, 4);
    file.set("qwen2.attention.head_count", Value::U32(3));
    file.set("qwen2.attention.head_count_kv", Value::U32(3));
    let message =
        "hyper-parameter qwen2.attention.head_count: expected a divisor of qwen2.embedding_length 16, got 3";
    assert_eq!(file.refusal(), message);
}

#[test]
fn rope_scaling_follows_the_metadata() {
    let scaled = |kind: &str, factor: f32| {
        let mut file = File::new("qwen2", SMALL);
        file.set("qwen2.rope.scaling.type", Value::Str(kind.to_string()));
        file.set("qwen2.rope.scaling.factor", Value::F32(factor));
        file.set("qwen2.rope.scaling.original_context_length", Value::U32(128));
        file.model().hparams.rope
    };
    assert_eq!(scaled("none", 4.0).freq_scale, 1.0);
    assert_eq!(scaled("linear", 4.0).freq_scale, 0.25);
    assert_eq!(scaled("linear", 0.0).freq_scale, 1.0);
    assert!(scaled("linear", 4.0).yarn.is_none());
    let yarn = scaled("yarn", 4.0);
    assert_eq!(yarn.freq_scale, 0.25);
    let constants = yarn.yarn.expect("yarn");
    assert_eq!((constants.n_ctx_orig, constants.beta_fast, constants.beta_slow), (128, 32.0, 1.0));
}
