//! The fusion of a product with the residual that it is added to.

use minfer::backends::null::Claims;
use minfer::graph::*;

use crate::common::*;

/// `sum = product(x) + r`, both of `[8, 2]`; `swapped` puts the product second. `more` adds what else reads
/// the values.
fn residual(swapped: bool, more: impl FnOnce(&mut GraphBuilder, [NodeId; 3])) -> Graph {
    let mut g = GraphBuilder::new(params(2, 2));
    let ids = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[ids], &[&matrix("x.weight", 6, 9)]);
    let weights = [&matrix("w", 6, 8), &vector("b", 8)];
    let op = MatMul { bias: true, activations: ActivationPrecision::Bits16 };
    let product = g.node("product", op, &[x], &weights);
    let r = g.node("r", GetRows, &[ids], &[&matrix("r.weight", 8, 9)]);
    let sum = g.node("sum", Add, &if swapped { [r, product] } else { [product, r] }, &[]);
    g.output(sum);
    more(&mut g, [product, r, sum]);
    g.finish().unwrap()
}

fn nothing_more(_: &mut GraphBuilder, _: [NodeId; 3]) {}

/// `graph` on a device with these claims after assignment and fusion, and what was rewritten.
fn fused_on(claims: Claims, mut graph: Graph) -> (Graph, Vec<NodeId>) {
    let (set, _) = device_set(claims);
    assign(&mut graph, &set, &policy(1, 0));
    let rewritten = fuse(&mut graph, &set);
    (graph, rewritten)
}

fn fused(graph: Graph) -> (Graph, Vec<NodeId>) {
    fused_on(Claims::like_device("gpu"), graph)
}

#[test]
fn a_product_and_its_residual_are_one_node_in_either_order() {
    for swapped in [false, true] {
        let (graph, rewritten) = fused(residual(swapped, nothing_more));
        let (sum, product) = (by_name(&graph, "sum"), by_name(&graph, "product"));
        assert_eq!(rewritten, [sum.id]);
        assert_eq!(sum.op, MatMulAdd { bias: true, activations: ActivationPrecision::Bits16 }.into());
        assert_eq!(sum.src, [by_name(&graph, "x").id, by_name(&graph, "r").id]);
        assert_eq!(sum.meta, product.meta);
        assert_eq!(Liveness::of(&graph).role(product.id), Role::Orphan);
    }
}

#[test]
fn a_product_that_something_else_reads_is_left_alone() {
    let read_again = residual(false, |g, [product, ..]| {
        let again = g.node("again", Scale { factor: 2.0 }, &[product], &[]);
        g.output(again);
    });
    assert_eq!(fused(read_again).1, []);
    let output = residual(false, |g, [product, ..]| g.output(product));
    assert_eq!(fused(output).1, []);
    let doubled = residual(false, |g, [product, ..]| {
        let twice = g.node("twice", Add, &[product, product], &[]);
        g.output(twice);
    });
    assert_eq!(fused(doubled).1, []);
}

#[test]
fn a_product_added_to_itself_is_left_alone() {
    let mut g = GraphBuilder::new(params(2, 2));
    let ids = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[ids], &[&matrix("x.weight", 6, 9)]);
    let y = g.node("y", product(), &[x], &[&matrix("w", 6, 8)]);
    let twice = g.node("twice", Add, &[y, y], &[]);
    g.output(twice);
    assert_eq!(fused(g.finish().unwrap()).1, []);
}

#[test]
fn nothing_is_folded_across_backends_or_without_a_claim() {
    let mut graph = residual(false, nothing_more);
    let product = by_name(&graph, "product").id;
    graph.nodes[product.index()].backend = Some(BackendId::CPU);
    assert_eq!(fused(graph).1, []);
    assert_eq!(fused_on(Claims::like_device("gpu").without_fused(), residual(false, nothing_more)).1, []);
    let (set, _) = cpu_set();
    let mut graph = residual(false, nothing_more);
    assign(&mut graph, &set, &policy(0, 0));
    assert!(fuse(&mut graph, &set).is_empty(), "the processor does not claim it");
}

#[test]
fn of_two_products_the_first_is_folded_in() {
    let mut g = GraphBuilder::new(params(2, 2));
    let ids = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[ids], &[&matrix("x.weight", 6, 9)]);
    let a = g.node("a", product(), &[x], &[&matrix("a.weight", 6, 8)]);
    let b = g.node("b", product(), &[x], &[&matrix("b.weight", 6, 8)]);
    let sum = g.node("sum", Add, &[b, a], &[]);
    g.output(sum);
    let (mut graph, rewritten) = fused(g.finish().unwrap());
    assert_eq!(rewritten, [sum]);
    assert_eq!(graph.node(sum).src, [x, a]);
    assert_eq!(&*graph.node(sum).meta.weights[0].name, "b.weight");
    let live = Liveness::of(&graph);
    assert_eq!((live.role(a), live.role(b)), (Role::Executed, Role::Orphan));
    let once = graph.clone();
    let (set, _) = device_set(Claims::like_device("gpu"));
    assert!(fuse(&mut graph, &set).is_empty());
    assert_eq!(graph, once);
}

#[test]
fn sources_live_until_the_sum_which_takes_the_residuals_place() {
    let mut graph = residual(true, |g, [.., sum]| {
        let scaled = g.node("scaled", Scale { factor: 2.0 }, &[sum], &[]);
        g.output(scaled);
    });
    graph.outputs = vec![by_name(&graph, "scaled").id];
    let (fused, _) = fused(graph.clone());
    let live = Liveness::of(&fused);
    let plan = Plan::of(&fused, &live, &Schedule::of(&fused, &live));
    let [x, r, sum, product] = ["x", "r", "sum", "product"].map(|name| plan.value(by_name(&fused, name).id));
    assert_ne!(x, r);
    assert_eq!((sum, product), (r, None));
    let (mut set, _) = device_set(Claims::like_device("gpu"));
    assert!(Executable::compile(graph, &mut set, &policy(1, 0)).is_ok(), "every stage accepts it");
}

#[test]
fn before_and_after_as_text() {
    let (set, _) = device_set(Claims::like_device("gpu"));
    let mut graph = residual(true, nothing_more);
    assign(&mut graph, &set, &policy(1, 0));
    insta::assert_snapshot!("mat_mul_add_before", graph.to_text());
    fuse(&mut graph, &set);
    insta::assert_snapshot!("mat_mul_add_after", graph.to_text());
}
