//! Which backend each node gets.

use minfer::backends::null::Claims;
use minfer::graph::*;

use crate::common::*;

fn assigned(set: &BackendSet, policy: &Policy) -> Graph {
    let mut graph = decoder(params(4, 1), 3);
    assign(&mut graph, set, policy);
    graph
}

fn on(graph: &Graph, name: &str) -> BackendId {
    by_name(graph, name).backend.unwrap()
}

#[test]
fn everything_follows_when_all_blocks_are_on_the_device() {
    let (set, _) = device_set(Claims::like_device("gpu"));
    let graph = assigned(&set, &policy(3, 3));
    assert!(graph.nodes.iter().all(|node| node.backend == Some(DEVICE)));
}

#[test]
fn blocks_beyond_the_plan_and_what_belongs_to_none_stay_on_the_cpu() {
    let (set, _) = device_set(Claims::like_device("gpu"));
    let graph = assigned(&set, &policy(2, 3));
    assert_eq!(on(&graph, "blk.1.ffn_down"), DEVICE);
    for name in ["token_ids", "embd", "blk.2.attn_q", "output_norm", "logits"] {
        assert_eq!(on(&graph, name), BackendId::CPU, "{name}");
    }
}

#[test]
fn a_fenced_off_device_gets_nothing() {
    let (set, _) = device_set(Claims::like_device("gpu"));
    let fenced = Policy { fence: BackendId::CUDA.bit(), ..policy(3, 3) };
    let graph = assigned(&set, &fenced);
    assert!(graph.nodes.iter().all(|node| node.backend == Some(BackendId::CPU)));
}

#[test]
fn an_op_without_a_kernel_or_a_weight_goes_to_the_next_in_line() {
    let lacking =
        Claims::like_device("gpu").without(&[OpKind::RmsNorm]).without_weight("blk.1.ffn_up.weight");
    let (set, _) = set_of([
        (BackendId::CPU, Claims::like_cpu("cpu")),
        (DEVICE, lacking),
        (BackendId::CUDA, Claims::none("second").with(&[OpKind::RmsNorm])),
    ]);
    let order = vec![DEVICE, BackendId::CUDA, BackendId::CPU];
    let graph = assigned(&set, &Policy { order, ..policy(3, 3) });
    assert_eq!(on(&graph, "blk.1.ffn_norm"), BackendId::CUDA);
    assert_eq!(on(&graph, "blk.1.ffn_up"), BackendId::CPU);
    assert_eq!(on(&graph, "blk.1.ffn_gate"), DEVICE);
}

#[test]
fn an_op_that_nobody_has_goes_to_the_cpu_and_fails_there_by_name() {
    let (mut set, _) = set_of([(BackendId::CPU, Claims::like_cpu("cpu").without(&[OpKind::Attn]))]);
    let params = params(4, 1);
    let mut executable = Executable::compile(decoder(params, 1), &mut set, &policy(0, 1)).unwrap();
    let data = StepData::new(&params);
    let error = executable.run(&mut set, &data.inputs(), &mut ()).unwrap_err();
    assert_eq!(error.to_string(), "node blk.0.attn (Attn): backend cpu has no kernel for it");
}

#[test]
fn an_explicit_backend_is_kept() {
    let (set, _) = device_set(Claims::like_device("gpu"));
    let mut graph = decoder(params(4, 1), 3);
    let id = by_name(&graph, "blk.1.ffn_gate").id;
    graph.nodes[id.index()].backend = Some(BackendId::CPU);
    assign(&mut graph, &set, &policy(3, 3));
    assert_eq!(on(&graph, "blk.1.ffn_gate"), BackendId::CPU);
    assert_eq!(on(&graph, "blk.1.ffn_up"), DEVICE);
}

#[test]
fn keys_and_values_of_a_layer_stay_together() {
    let (set, _) = device_set(Claims::like_device("gpu").without(&[OpKind::Attn]));
    let graph = assigned(&set, &policy(3, 3));
    for name in ["blk.0.kv_store", "blk.0.kv", "blk.0.attn"] {
        assert_eq!(on(&graph, name), BackendId::CPU, "{name}");
    }
    let (set, _) = device_set(Claims::like_device("gpu"));
    let mut graph = decoder(params(4, 1), 3);
    let id = by_name(&graph, "blk.1.attn").id;
    graph.nodes[id.index()].backend = Some(DEVICE);
    assign(&mut graph, &set, &policy(0, 3));
    assert_eq!(on(&graph, "blk.1.kv_store"), DEVICE);
    assert_eq!(on(&graph, "blk.0.kv_store"), BackendId::CPU);
}

/// Whatever part of the graph is assigned first, the whole comes out the same.
#[test]
fn assignment_does_not_depend_on_the_order_of_visits() {
    let lacking = Claims::like_device("gpu").without(&[OpKind::RmsNorm, OpKind::Attn]);
    let (set, _) = device_set(lacking);
    let policy = policy(2, 3);
    let at_once = assigned(&set, &policy);
    let n = at_once.nodes.len();
    for step in [1, 7, 11, 13] {
        let mut graph = decoder(params(4, 1), 3);
        for visit in 0..n {
            let mut alone = graph.clone();
            assign(&mut alone, &set, &policy);
            let index = (visit * step + 5) % n;
            graph.nodes[index].backend = alone.nodes[index].backend;
        }
        assign(&mut graph, &set, &policy);
        assert_eq!(graph, at_once, "step {step}");
    }
}

#[test]
fn an_alias_goes_where_its_source_lies() {
    let mut g = GraphBuilder::new(params(4, 4));
    let ids = g.input(InputKind::TokenIds);
    g.set_layer(Some(0));
    let x = g.node("x", GetRows, &[ids], &[&matrix("w", 8, 9)]);
    g.set_layer(Some(1));
    let flat = g.node("flat", Reshape { shape: minfer::tensor::Shape::d1(32) }, &[x], &[]);
    g.output(flat);
    let mut graph = g.finish().unwrap();
    let (set, _) = device_set(Claims::like_device("gpu"));
    assign(&mut graph, &set, &policy(1, 2));
    assert_eq!(on(&graph, "flat"), DEVICE);
}
