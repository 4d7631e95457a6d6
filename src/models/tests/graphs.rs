//! Shapes, counts and conditions of graphs.

use super::*;
use crate::graph::{Census, FusedFFN, FusedQKV, Fusion, InputKind, Liveness};

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
            let n_norms = 5 - n_qkv - if fuse_ffn { 2 } else { 0 };
            assert_eq!(count(&graph, OpKind::RmsNorm), n_norms, "{arch}: fused products include their norms");
        }
    }
}

#[test]
fn nothing_is_fused_without_a_device_or_with_more_than_one_token() {
    let model = File::new("qwen2", SMALL).model();
    let fused = |kind: &OpKind| kind.fusion() == Fusion::ByBuilder;
    let graphs = [
        build(&model, &params(1, 1)),
        model.build(&params(2, 2), &ALL_FUSED).expect("well-formed"),
        model.build(&params(1, 1), &Claims { ops: &[OpKind::FusedQKV], ..ALL_FUSED }).expect("well-formed"),
    ];
    for graph in &graphs {
        assert!(OpKind::ALL.iter().filter(|kind| fused(kind)).all(|&kind| count(graph, kind) == 0));
    }
}

#[test]
fn a_device_without_the_norm_in_its_products_gets_it_as_a_node() {
    let device = Claims { with_norm: false, ..ALL_FUSED };
    let graph = File::new("qwen2", SMALL).model().build(&params(1, 1), &device).expect("well-formed");
    for (product, norm) in [("attn_qkv", "attn_norm"), ("ffn_gate_up", "ffn_norm")] {
        let product = node(&graph, &format!("blk.1.{product}"));
        assert_eq!(graph.node(product.src[0]).name, format!("blk.1.{norm}"));
    }
    assert_eq!(node(&graph, "blk.1.attn_qkv").op, FusedQKV { norm: None }.into());
    assert_eq!(node(&graph, "blk.1.ffn_gate_up").op, FusedFFN { norm: None }.into());
    assert_eq!(count(&graph, OpKind::RmsNorm), 5);
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
