//! A GPU that is lost or has too little memory: an error each time, and the next one who asks gets a working
//! device.
//!
//! The device is the process's, so that whoever gives it up takes it from everybody. These tests take turns.
#![cfg(feature = "gpu")]

mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use minfer::engine::{Batch, ContextOptions, Engine, GpuLayers};
use minfer::error::Hint;
use minfer::graph::KvFormat;
use support::*;

const MODEL: &str = "tiny/wide-qwen2-q4_k_m.gguf";

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_gpu_lost_in_the_middle_is_an_error_and_a_new_one_can_be_opened() {
    let _turn = turn();
    let mut options = gpu::options(GpuLayers::Auto);
    options.device.fault_after = Some(3);
    let engine = Engine::load(&reference(MODEL), &options).expect("it loads");
    let mut lost = context(&engine, KvFormat::F16);
    let seq = lost.kv_mut().open().expect("a free sequence");
    for n_done in 0..2 {
        lost.decode(&Batch::prompt(seq, &[5])).map(drop).unwrap_or_else(|error| panic!("{n_done}: {error}"));
    }
    for _ in 0..3 {
        let error = lost.decode(&Batch::prompt(seq, &[5])).map(drop).expect_err("lost");
        assert!(error.to_string().contains("the device was lost"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--backend cpu")), "{:?}", error.hint());
        assert_eq!(lost.kv().len(seq).expect("open"), 2);
    }
    engine.context(&ContextOptions::default()).map(drop).expect_err("its device is gone");
    // The lost engine is still alive here.
    let fresh = gpu::load(&reference(MODEL), GpuLayers::Auto);
    let alone = load(&reference(MODEL), 2);
    let logits = [alone, fresh].map(|engine| all_logits(&mut context(&engine, KvFormat::F16), &[5, 5, 5]));
    let difference = logits[0].iter().flatten().zip(logits[1].iter().flatten()).map(|(a, b)| (a - b).abs());
    let largest = logits[0].iter().flatten().fold(0f32, |largest, logit| largest.max(logit.abs()));
    assert!(difference.fold(0.0, f32::max) < 0.1 * largest);
}

#[test]
fn what_a_gpu_cannot_hold_is_refused_before_anything_is_lost() {
    let _turn = turn();
    let mut options = gpu::options(GpuLayers::Count(usize::MAX));
    options.device.memory_bytes = Some(64 << 10);
    let error = Engine::load(&reference(MODEL), &options).map(drop).expect_err("64 KiB are not enough");
    let text = error.to_string();
    assert!(text.contains("expected at most 0.1 MiB, got ") && text.contains("weights "), "{text}");
    // More than one binding of any device can span: refused by the driver's limits, with the size.
    let engine = gpu::load(&reference(MODEL), GpuLayers::Auto);
    let huge = ContextOptions {
        n_ctx: Some(1 << 26),
        kv_budget_bytes: Some(usize::MAX),
        ..ContextOptions::default()
    };
    let opened = engine.context(&huge).and_then(|mut context| {
        let seq = context.kv_mut().open().expect("a free sequence");
        context.decode(&Batch::prompt(seq, &[5])).map(drop)
    });
    let error = opened.expect_err("too large").to_string();
    assert!(error.contains("MiB") || error.contains("bytes"), "{error}");
    // The device goes on.
    assert_eq!(all_logits(&mut context(&engine, KvFormat::F16), &[5, 6]).len(), 2);
}
