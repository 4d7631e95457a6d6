//! Graphs that a stage must never leave behind are refused; compiling runs the verifier first.

use minfer::graph::*;
use minfer::tensor::{DType, Shape};

use crate::common::*;

fn refusal(spoil: impl FnOnce(&mut Graph)) -> String {
    let mut graph = decoder(params(4, 1), 1);
    spoil(&mut graph);
    let (mut set, _) = cpu_set();
    match Executable::compile(graph, &mut set, &policy(0, 1)) {
        Ok(_) => panic!("a broken graph compiled"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn ids_are_positions() {
    let message = refusal(|graph| graph.nodes.swap(0, 1));
    assert_eq!(message, "graph after build: node embd (GetRows): id: expected %0, got %1");
}

#[test]
fn sources_come_before_their_readers() {
    let message = refusal(|graph| graph.nodes[1].src[0] = NodeId(9));
    assert_eq!(message, "graph after build: node embd (GetRows): source 0: expected an earlier node, got %9");
}

#[test]
fn shape_and_type_are_what_the_rule_gives() {
    let message = refusal(|graph| graph.nodes[1].shape = Shape::d2(3, 4));
    assert_eq!(message, "graph after build: node embd (GetRows): shape: expected [64, 4], got [3, 4]");
    let message = refusal(|graph| graph.nodes[1].dtype = DType::F16);
    assert_eq!(message, "graph after build: node embd (GetRows): type: expected F32, got F16");
}

#[test]
fn names_are_unique() {
    let message = refusal(|graph| graph.nodes[1].name = "token_ids".into());
    assert!(message.contains("name: expected one that no other node has, got token_ids"), "{message}");
}

#[test]
fn outputs_exist_and_lie_in_buffers() {
    let message = refusal(|graph| graph.outputs.push(NodeId(999)));
    assert!(message.starts_with("graph output %999: expected one of"), "{message}");
    let message = refusal(|graph| {
        let kv = by_name(graph, "blk.0.kv").id;
        graph.outputs.push(kv);
    });
    assert!(message.contains("blk.0.kv (KvcacheLoad): output: expected a value in a buffer"), "{message}");
}

#[test]
fn a_backend_that_is_not_enabled_is_refused() {
    let message = refusal(|graph| graph.nodes[1].backend = Some(BackendId::CUDA));
    assert_eq!(message, "node embd (GetRows): backend: expected one of those enabled, got CUDA");
}

#[test]
fn keys_and_values_do_not_cross_backends() {
    let mut graph = decoder(params(4, 1), 1);
    let (store, attn) = (by_name(&graph, "blk.0.kv_store").id, by_name(&graph, "blk.0.attn").id);
    graph.nodes[store.index()].backend = Some(BackendId::CPU);
    graph.nodes[attn.index()].backend = Some(DEVICE);
    let (mut set, _) = device_set(minfer::backends::null::Claims::like_device("gpu"));
    let error = Executable::compile(graph, &mut set, &policy(0, 1)).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "graph after assignment: node blk.0.attn (Attn): backend of the keys and values of layer 0: \
         expected CPU, got Vulkan"
    );
}

#[test]
fn a_fused_node_is_refused_where_nobody_claims_it() {
    let mut g = GraphBuilder::new(params(1, 1));
    let ids = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[ids], &[&matrix("embd", 8, 9)]);
    let y = g.node("y", FusedFFN { norm: None }, &[x], &[&matrix("gate", 8, 4), &matrix("up", 8, 4)]);
    g.output(y);
    let (mut set, _) = cpu_set();
    let error = Executable::compile(g.finish().unwrap(), &mut set, &policy(0, 1)).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "graph after fusion: node y (FusedFFN): backend: expected one that claims this fusion, got cpu"
    );
}
