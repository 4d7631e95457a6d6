use minfer::graph::*;
use minfer::tensor::Shape;

use crate::common::*;

#[test]
fn an_input_is_made_once_per_kind_and_belongs_to_no_layer() {
    let mut g = GraphBuilder::new(params(3, 1));
    g.set_layer(Some(5));
    let first = g.input(InputKind::KvPages);
    assert_eq!(first, g.input(InputKind::KvPages));
    assert_ne!(first, g.input(InputKind::TailIds));
    assert_eq!(g.spec(first), TensorSpec::i32(Shape::d2(2, 2)));
    let ids = g.input(InputKind::TokenIds);
    let row = g.node("rows", GetRows, &[ids], &[&matrix("w", 8, 9)]);
    g.output(row);
    let graph = g.finish().unwrap();
    assert_eq!(by_name(&graph, "kv_pages").layer, None);
    assert_eq!(by_name(&graph, "rows").layer, Some(5));
}

#[test]
fn the_first_error_is_kept_and_names_node_op_expected_and_got() {
    let mut g = GraphBuilder::new(params(3, 1));
    let ids = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[ids], &[&matrix("w", 8, 9)]);
    let bad = g.node("bad", product(), &[x], &[&matrix("w2", 7, 9)]);
    let worse = g.node("x", Silu, &[bad], &[]);
    g.output(worse);
    let error = g.finish().unwrap_err();
    assert_eq!(error.to_string(), "node bad (MatMul): shape of source 0: expected [7, 3], got [8, 3]");
}

#[test]
fn names_are_unique() {
    let mut g = GraphBuilder::new(params(3, 1));
    let ids = g.input(InputKind::TokenIds);
    g.node("token_ids", GetRows, &[ids], &[&matrix("w", 8, 9)]);
    let error = g.finish().unwrap_err();
    assert_eq!(
        error.to_string(),
        "node token_ids (GetRows): name: expected one that no other node has, got token_ids"
    );
}

#[test]
fn a_source_that_does_not_exist_yet_is_refused() {
    let mut g = GraphBuilder::new(params(3, 1));
    g.node("x", Silu, &[NodeId(7)], &[]);
    let error = g.finish().unwrap_err();
    assert_eq!(error.to_string(), "node x (Silu): source 0: expected an earlier node, got %7");
}

#[test]
fn a_result_that_no_memory_can_hold_is_refused() {
    let mut g = GraphBuilder::new(params(3, 1));
    let ids = g.input(InputKind::TokenIds);
    g.node("x", GetRows, &[ids], &[&matrix("w", usize::MAX / 2, 9)]);
    assert!(matches!(g.finish(), Err(GraphError::Node { .. })));
}

#[test]
fn a_graph_without_any_effect_is_refused() {
    let mut g = GraphBuilder::new(params(3, 1));
    g.input(InputKind::TokenIds);
    assert!(matches!(g.finish(), Err(GraphError::NothingToRun { n_nodes: 1 })));
}

#[test]
fn equal_params_give_equal_graphs() {
    assert_eq!(decoder(params(5, 1), 3), decoder(params(5, 1), 3));
    assert_ne!(decoder(params(5, 1), 3), decoder(params(5, 5), 3));
}
