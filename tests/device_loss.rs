//! A device that is lost or fails in the middle of the work: an error each time, and nobody else is harmed.

mod support;

use minfer::engine::*;
use minfer::error::Hint;
use minfer::graph::*;
use support::fake_device::{FakeDevice, Traits};
use support::{all_logits, context, reference, tiny};

const MODEL: &str = "qwen2-tied-q4_0";
const PROMPT: [u32; 5] = [1, 2, 3, 4, 5];

/// An engine whose device is lost after `n_splits` splits.
fn doomed(n_splits: u64, gpu_layers: GpuLayers) -> Engine {
    let mut options = FakeDevice::new(Traits::default()).options(gpu_layers);
    options.device.fault_after = Some(n_splits);
    Engine::load(&reference(&format!("tiny/{MODEL}.gguf")), &options).expect("it loads")
}

fn is_lost(error: &EngineError) -> bool {
    error.to_string().contains("the device was lost")
}

#[test]
fn a_lost_device_is_an_error_and_sequences_are_as_long_as_before() {
    for n_splits in 1..6 {
        let engine = doomed(n_splits, GpuLayers::Auto);
        let mut context = context(&engine, KvFormat::F16);
        let seq = context.kv_mut().open().expect("a free sequence");
        let mut n_done = 0;
        let error = loop {
            match context.decode(&Batch::prompt(seq, &PROMPT[..1])).map(drop) {
                Ok(()) => n_done += 1,
                Err(error) => break error,
            }
        };
        assert!(is_lost(&error), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--backend cpu")), "{:?}", error.hint());
        assert_eq!(n_done, n_splits as usize - 1, "the step that hands over split {n_splits} cannot be read");
        assert_eq!(context.kv().len(seq).expect("open"), n_done);
        for _ in 0..3 {
            let error = context.decode(&Batch::prompt(seq, &PROMPT)).map(drop).expect_err("still lost");
            assert!(is_lost(&error), "{error}");
            assert_eq!(context.kv().len(seq).expect("open"), n_done);
        }
        context.kv_mut().close(seq).expect("closing needs no device");
    }
}

#[test]
fn a_device_that_is_lost_between_the_splits_of_a_step_ends_the_step() {
    let engine = doomed(1, GpuLayers::Count(1));
    let mut context = context(&engine, KvFormat::F16);
    let seq = context.kv_mut().open().expect("a free sequence");
    let error = context.decode(&Batch::prompt(seq, &PROMPT)).map(drop).expect_err("lost");
    assert!(is_lost(&error), "{error}");
    assert_eq!(context.kv().len(seq).expect("open"), 0);
}

#[test]
fn other_engines_go_on_and_new_contexts_of_a_lost_device_fail_cleanly() {
    let engine = doomed(1, GpuLayers::Auto);
    let mut lost = context(&engine, KvFormat::F16);
    let seq = lost.kv_mut().open().expect("a free sequence");
    lost.decode(&Batch::prompt(seq, &PROMPT)).map(drop).expect_err("lost");
    let error = engine.context(&ContextOptions::default()).map(drop).expect_err("lost");
    assert!(is_lost(&error), "{error}");
    let alone = tiny(MODEL);
    let other = FakeDevice::new(Traits::default()).load(MODEL, GpuLayers::Auto);
    let logits = [alone, other].map(|engine| all_logits(&mut context(&engine, KvFormat::F16), &PROMPT));
    assert_eq!(logits[0], logits[1]);
}

#[test]
fn a_step_that_the_device_has_no_memory_for_leaves_a_fork_with_its_past() {
    // Room for the weights and the context, but not for a graph of many tokens.
    let tokens: Vec<u32> = (0..40).collect();
    let whole = |device: &std::sync::Arc<FakeDevice>, memory: Option<usize>| {
        let mut options = device.options(GpuLayers::Auto);
        options.device.context.n_batch = 1;
        options.device.memory_bytes = memory;
        Engine::load(&reference(&format!("tiny/{MODEL}.gguf")), &options).expect("it loads")
    };
    let run = |context: &mut Context, too_many: bool| {
        let parent = context.kv_mut().open().expect("a free sequence");
        for token in &tokens {
            context.decode(&Batch::prompt(parent, &[*token])).expect("one token fits");
        }
        let child = context.kv_mut().fork(parent, 35).expect("a free sequence");
        if too_many {
            let many: Vec<u32> = (0..300).map(|i| i % 200).collect();
            let error = context.decode(&Batch::scored(child, &many)).map(drop).expect_err("too much");
            assert!(error.to_string().starts_with("memory on Vulkan: expected at most"), "{error}");
            assert_eq!(context.kv().len(child).expect("open"), 35);
        }
        context
            .decode(&Batch::prompt(child, &[7]))
            .expect("one token fits")
            .rows()
            .next()
            .expect("one")
            .to_vec()
    };
    let device = FakeDevice::new(Traits::default());
    let enough = context(&whole(&device, None), KvFormat::F16);
    let expected = run(&mut { enough }, false);
    let kv_bytes = context(&whole(&device, None), KvFormat::F16).kv_bytes();
    let memory = device.weights_bytes() + kv_bytes + (100 << 10);
    let mut tight = context(&whole(&FakeDevice::new(Traits::default()), Some(memory)), KvFormat::F16);
    assert_eq!(run(&mut tight, true), expected);
}
