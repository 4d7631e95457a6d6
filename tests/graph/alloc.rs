//! Buffers: what shares one, what must not, what is kept, and what a budget refuses.

use minfer::backends::null::Claims;
use minfer::error::Hint;
use minfer::graph::*;
use minfer::tensor::Shape;

use crate::common::*;

fn compiled(graph: Graph) -> Executable {
    let (mut set, _) = cpu_set();
    Executable::compile(graph, &mut set, &policy(0, 1)).unwrap()
}

fn place(executable: &Executable, name: &str) -> Option<Place> {
    executable.plan().value(by_name(executable.graph(), name).id)
}

/// `x -> a -> b`, and whatever else `more` adds; the last node is the output.
fn chain(more: impl FnOnce(&mut GraphBuilder, [NodeId; 3])) -> Graph {
    let mut g = GraphBuilder::new(params(2, 2));
    let ids = g.input(InputKind::TokenIds);
    let x = g.node("x", GetRows, &[ids], &[&matrix("w", 512, 9)]);
    let a = g.node("a", Scale { factor: 2.0 }, &[x], &[]);
    let b = g.node("b", Scale { factor: 3.0 }, &[a], &[]);
    more(&mut g, [x, a, b]);
    g.finish().unwrap()
}

#[test]
fn a_result_takes_the_place_of_a_source_that_nobody_else_reads() {
    let executable = compiled(chain(|g, [_, _, b]| g.output(b)));
    assert_eq!(place(&executable, "x"), place(&executable, "a"));
    assert_eq!(place(&executable, "a"), place(&executable, "b"));
    assert_eq!(executable.plan().buffers().len(), 2, "token ids and one value");
}

#[test]
fn a_source_with_another_reader_is_not_overwritten() {
    let executable = compiled(chain(|g, [x, _, b]| {
        let sum = g.node("sum", Add, &[b, x], &[]);
        g.output(sum);
    }));
    assert_ne!(place(&executable, "x"), place(&executable, "a"));
    assert_eq!(place(&executable, "a"), place(&executable, "b"));
}

#[test]
fn a_value_that_is_added_to_itself_is_not_overwritten() {
    let executable = compiled(chain(|g, [_, _, b]| {
        let twice = g.node("twice", Add, &[b, b], &[]);
        g.output(twice);
    }));
    assert_ne!(place(&executable, "twice"), place(&executable, "b"));
}

#[test]
fn outputs_keep_their_place_and_inputs_theirs() {
    let executable = compiled(chain(|g, [_, a, b]| {
        g.output(a);
        let c = g.node("c", Scale { factor: 1.0 }, &[b], &[]);
        g.output(c);
    }));
    assert_eq!(place(&executable, "x"), place(&executable, "a"));
    assert_ne!(place(&executable, "a"), place(&executable, "b"));
    assert_ne!(place(&executable, "token_ids"), place(&executable, "c"));
}

#[test]
fn aliases_share_and_protect_the_bytes_of_their_source() {
    let executable = compiled(chain(|g, [_, _, b]| {
        let low = g.node("low", View { offset_elems: 0, shape: Shape::d1(512) }, &[b], &[]);
        let high = g.node("high", View { offset_elems: 512, shape: Shape::d1(512) }, &[b], &[]);
        let scaled = g.node("scaled", Scale { factor: 2.0 }, &[low], &[]);
        let sum = g.node("sum", Add, &[scaled, high], &[]);
        g.output(sum);
    }));
    assert_eq!(place(&executable, "low"), None);
    assert_ne!(place(&executable, "scaled"), place(&executable, "b"), "the other half is still read");
}

#[test]
fn orphans_and_regions_get_no_buffer() {
    let executable = compiled(decoder(params(4, 1), 1));
    assert_eq!(place(&executable, "blk.0.ffn_act"), None);
    assert_eq!(place(&executable, "blk.0.kv_store"), None);
    assert_eq!(place(&executable, "blk.0.kv"), None);
    assert!(place(&executable, "blk.0.ffn_gated").is_some());
}

#[test]
fn a_deeper_model_needs_no_more_buffers() {
    let n_buffers = |n_layer| compiled(decoder(params(16, 1), n_layer)).plan().buffers().len();
    assert_eq!(n_buffers(2), n_buffers(12));
}

#[test]
fn a_rebuild_of_a_known_shape_makes_no_new_buffer() {
    let (mut set, counters) = cpu_set();
    let policy = policy(0, 2);
    let first = Executable::compile(decoder(params(7, 1), 2), &mut set, &policy).unwrap();
    let (n_new, n_buffers) = (counters.n_new(), first.plan().buffers().len());
    assert_eq!(n_new, n_buffers);
    drop(first);
    let _second = Executable::compile(decoder(params(7, 1), 2), &mut set, &policy).unwrap();
    assert_eq!((counters.n_new(), counters.n_reused()), (n_new, n_buffers));
    assert_eq!((counters.n_freed(), counters.n_kv()), (n_buffers, 2));
}

#[test]
fn dropping_a_graph_frees_all_it_took() {
    let (mut set, _) = cpu_set();
    let executable = Executable::compile(decoder(params(7, 1), 2), &mut set, &policy(0, 2)).unwrap();
    assert_eq!(set.used_bytes(BackendId::CPU), executable.plan().bytes_on(BackendId::CPU));
    drop(executable);
    assert_eq!(set.used_bytes(BackendId::CPU), 0);
}

#[test]
fn a_graph_beyond_the_budget_is_refused_before_anything_is_allocated() {
    let (mut set, [cpu, device]) = device_set(Claims::like_device("gpu").weights_bytes(3 << 20));
    set.set_budget(DEVICE, 3 << 20);
    let compiled = Executable::compile(decoder(params(4, 1), 2), &mut set, &policy(2, 2));
    let error = compiled.map(|_| ()).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("memory on Vulkan: expected at most 3.0 MiB, got 3."), "{message}");
    assert!(message.contains("weights 3.0, keys and values 0.0, intermediate results 0.0"), "{message}");
    assert!(error.hint().unwrap().contains("smaller context"));
    for counters in [cpu, device] {
        assert_eq!((counters.n_new(), counters.n_kv()), (0, 0));
    }
}

#[test]
fn spare_buffers_and_regions_that_exist_count_once_in_the_budget() {
    let (mut set, counters) = cpu_set();
    let policy = policy(0, 2);
    let first = Executable::compile(decoder(params(4, 1), 2), &mut set, &policy).unwrap();
    let kv_bytes = 2 * kv_store(&params(4, 1), 0).kv.spec().shape.n_elems() * 2;
    set.set_budget(BackendId::CPU, first.plan().bytes_on(BackendId::CPU) + kv_bytes);
    drop(first);
    let second = Executable::compile(decoder(params(4, 1), 2), &mut set, &policy).unwrap();
    let third = Executable::compile(decoder(params(4, 1), 2), &mut set, &policy);
    assert!(matches!(third, Err(GraphError::Budget { .. })), "two at once do not fit");
    drop(second);
    assert_eq!(counters.n_kv(), 2);
}

#[test]
fn keys_and_values_neither_move_nor_change_form() {
    let (mut set, _) = device_set(Claims::like_device("gpu"));
    let first = Executable::compile(decoder(params(4, 1), 2), &mut set, &policy(0, 2)).unwrap();
    drop(first);
    let moved = Executable::compile(decoder(params(4, 1), 2), &mut set, &policy(2, 2));
    assert_eq!(
        moved.map(|_| ()).unwrap_err().to_string(),
        "keys and values of layer 0: expected 64 rows of 32 + 32 F16 on CPU, got 64 rows of 32 + 32 F16 on Vulkan"
    );
    let mut wider = params(4, 1);
    wider.cparams.n_ctx = 128;
    let grown = Executable::compile(decoder(wider, 2), &mut set, &policy(0, 2));
    assert!(matches!(grown, Err(GraphError::KvChanged { layer: 0, .. })));
}

#[test]
fn size_classes_waste_at_most_an_eighth() {
    let mut last = 0;
    for bytes in 1..20_000 {
        let class = size_class(bytes);
        assert!(
            class >= bytes && class >= last && class <= (bytes + bytes / 8 + 1).max(256),
            "{bytes}: {class}"
        );
        assert_eq!(size_class(class), class);
        last = class;
    }
}
