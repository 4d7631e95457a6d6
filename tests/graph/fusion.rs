//! The fusion pass.

use minfer::backends::null::Claims;
use minfer::graph::*;

use crate::common::*;

/// `Mul` of a `Silu` and another value; `swapped` puts the `Silu` second.
fn gated(swapped: bool) -> Graph {
    let mut g = GraphBuilder::new(params(2, 2));
    let ids = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[ids], &[&matrix("x.weight", 8, 9)]);
    let y = g.node("y", GetRows, &[ids], &[&matrix("y.weight", 8, 9)]);
    let act = g.node("act", Silu, &[x], &[]);
    let gated = g.node("gated", Mul, &if swapped { [y, act] } else { [act, y] }, &[]);
    let scaled = g.node("scaled", Scale { factor: 2.0 }, &[gated], &[]);
    g.output(scaled);
    g.finish().unwrap()
}

fn fused(mut graph: Graph, claims: Claims) -> (Graph, Vec<NodeId>) {
    let (set, _) = set_of([(BackendId::CPU, claims)]);
    assign(&mut graph, &set, &policy(0, 0));
    let rewritten = fuse(&mut graph, &set);
    (graph, rewritten)
}

#[test]
fn swiglu_fusion_applies_when_backend_supports() {
    for swapped in [false, true] {
        let (graph, rewritten) = fused(gated(swapped), Claims::like_cpu("cpu"));
        let node = by_name(&graph, "gated");
        assert_eq!(rewritten, [node.id]);
        assert_eq!(node.op, SwiGLU.into());
        assert_eq!(node.src, [by_name(&graph, "x").id, by_name(&graph, "y").id]);
        assert_eq!(Liveness::of(&graph).role(by_name(&graph, "act").id), Role::Orphan);
    }
}

#[test]
fn swiglu_fusion_skipped_when_backend_does_not_support() {
    let (graph, rewritten) = fused(gated(false), Claims::like_cpu("cpu").without_fused());
    assert!(rewritten.is_empty());
    assert_eq!(by_name(&graph, "gated").op, Mul.into());

    // The backend that counts is the one the node is assigned to, not one that happens to be there.
    let mut graph = gated(false);
    let (set, _) = device_set(Claims::like_device("gpu").without_fused());
    assign(&mut graph, &set, &policy(1, 0));
    assert_eq!(by_name(&graph, "gated").backend, Some(DEVICE));
    assert!(fuse(&mut graph, &set).is_empty());

    let mut unassigned = gated(false);
    assert!(fuse(&mut unassigned, &set).is_empty(), "a node without a backend is never fused");
}

#[test]
fn fusion_changes_ops_and_sources_only_and_finds_nothing_twice() {
    let (set, _) = cpu_set();
    let mut graph = decoder(params(4, 1), 2);
    assign(&mut graph, &set, &policy(0, 2));
    let before = graph.clone();
    assert_eq!(fuse(&mut graph, &set).len(), 2);
    for (old, new) in before.nodes.iter().zip(&graph.nodes) {
        let rewritten = Node { op: new.op.clone(), src: new.src.clone(), ..old.clone() };
        assert_eq!(rewritten, *new);
    }
    let once = graph.clone();
    assert!(fuse(&mut graph, &set).is_empty());
    assert_eq!(graph, once);
}

#[test]
fn a_silu_with_another_reader_stays_alive() {
    let mut graph = gated(false);
    let act = by_name(&graph, "act").id;
    graph.outputs.push(act);
    let (graph, rewritten) = fused(graph, Claims::like_cpu("cpu"));
    assert_eq!(rewritten.len(), 1);
    assert_eq!(Liveness::of(&graph).role(act), Role::Executed);
}

#[test]
fn a_product_of_two_silus_is_fused_with_the_first_as_gate() {
    let mut g = GraphBuilder::new(params(2, 2));
    let ids = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[ids], &[&matrix("w", 8, 9)]);
    let a = g.node("a", Silu, &[x], &[]);
    let b = g.node("b", Silu, &[a], &[]);
    let product = g.node("product", Mul, &[a, b], &[]);
    g.output(product);
    let (graph, _) = fused(g.finish().unwrap(), Claims::like_cpu("cpu"));
    assert_eq!(by_name(&graph, "product").src, [x, b]);
    let live = Liveness::of(&graph);
    assert_eq!((live.role(a), live.role(b)), (Role::Executed, Role::Executed));
}

#[test]
fn before_and_after_as_text() {
    let (set, _) = cpu_set();
    let mut graph = gated(true);
    assign(&mut graph, &set, &policy(0, 0));
    insta::assert_snapshot!("swiglu_before", graph.to_text());
    fuse(&mut graph, &set);
    insta::assert_snapshot!("swiglu_after", graph.to_text());
}
