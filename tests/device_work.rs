//! What a device does is counted and timed: exactly, and without waiting for it where it has a clock.

mod support;

use std::sync::{Arc, Mutex};

use minfer::engine::*;
use minfer::graph::*;
use support::fake_device::{FakeDevice, Traits};
use support::{context, tiny};

const MODEL: &str = "qwen2-tied-q4_0";

/// Nodes of a decode step that run, and bytes of the weights that they read.
fn decode_step(context: &mut Context) -> (u64, u64) {
    let params = context.params(1, 1, GraphType::Decode);
    let executable = context.executable(&params).expect("it compiles");
    let executed = executable.liveness().executed(executable.graph());
    executed.fold((0, 0), |(n, bytes), node| {
        let weights = node.meta.weights.iter();
        let read = weights.map(|w| w.dtype.bytes_for(w.shape.n_elems()).expect("whole blocks") as u64);
        (n + 1, bytes + read.sum::<u64>())
    })
}

#[test]
fn the_work_of_decoded_tokens_is_counted_exactly() {
    const N: usize = 5;
    let engine = FakeDevice::new(Traits::default()).load(MODEL, GpuLayers::Auto);
    let mut context = context(&engine, KvFormat::F16);
    let (n_nodes, weight_bytes) = decode_step(&mut context);
    let run = context.bench(BenchTest::Decode { n_gen: N, depth: 3 }).expect("it runs");
    let n_vocab = engine.model().hparams.n_vocab as u64;
    // Inputs: id, position, cell, sequence, and the table of pages, 4 bytes each.
    let n_pages = (context.n_ctx() / PAGE_TOKENS * 4) as u64;
    let expected = WorkCounts {
        dispatches: n_nodes * N as u64,
        submissions: N as u64,
        weights_read_bytes: weight_bytes * N as u64,
        uploaded_bytes: (4 + n_pages) * 4 * N as u64,
        downloaded_bytes: n_vocab * 4 * N as u64,
    };
    assert_eq!(run.work, expected);
    let again = context.bench(BenchTest::Decode { n_gen: N, depth: 3 }).expect("it runs");
    assert_eq!(again.work, run.work, "the same each time");
}

#[test]
fn the_cpu_alone_has_no_device_whose_work_could_be_counted() {
    let mut context = context(&tiny(MODEL), KvFormat::F16);
    let run = context.bench(BenchTest::Prefill { n_prompt: 8, depth: 0 }).expect("it runs");
    assert_eq!(run.work, WorkCounts::default());
    assert!(!context.measure_device() && context.device_times().is_none());
}

#[test]
fn a_device_with_a_clock_measures_every_node() {
    let engine =
        FakeDevice::new(Traits { has_clock: true, ..Traits::default() }).load(MODEL, GpuLayers::Auto);
    let mut context = context(&engine, KvFormat::F16);
    let (n_nodes, _) = decode_step(&mut context);
    assert!(context.measure_device());
    context.bench(BenchTest::Decode { n_gen: 2, depth: 0 }).expect("it runs");
    let times = context.device_times().expect("it measures");
    let n: u64 = times.values().map(|time| time.n).sum();
    let micros: u128 = times.values().map(|time| time.total.as_micros()).sum();
    assert_eq!((n, micros), (2 * n_nodes, 2 * u128::from(n_nodes)));
}

#[test]
fn a_device_without_a_clock_says_so() {
    let engine = FakeDevice::new(Traits::default()).load(MODEL, GpuLayers::Auto);
    assert!(!context(&engine, KvFormat::F16).measure_device());
}

/// Notes where nodes run.
struct Places(Arc<Mutex<Vec<Place>>>);

/// Layer and backend of a node.
type Place = (Option<u32>, Option<BackendId>);

impl Observer for Places {
    fn node_start(&mut self, node: &Node, _: &mut NodeSources<'_>) {
        self.0.lock().expect("no panic").push((node.layer, node.backend));
    }
}

#[test]
fn the_graph_that_is_shown_is_the_one_that_runs() {
    let engine = FakeDevice::new(Traits::default()).load(MODEL, GpuLayers::Count(1));
    let mut context = context(&engine, KvFormat::F16);
    let params = context.params(1, 1, GraphType::Decode);
    let executable = context.executable(&params).expect("it compiles");
    let shown: Vec<_> =
        executable.liveness().executed(executable.graph()).map(|node| (node.layer, node.backend)).collect();
    let places = Arc::default();
    context.set_observer(Box::new(Places(Arc::clone(&places))));
    let seq = context.kv_mut().open().expect("a free sequence");
    context.decode(&Batch::prompt(seq, &[1])).expect("it runs");
    assert_eq!(*places.lock().expect("no panic"), shown);
    for (layer, backend) in shown {
        let expected = if layer == Some(0) { BackendId::VULKAN } else { BackendId::CPU };
        assert_eq!(backend, Some(expected), "{layer:?}");
    }
}
