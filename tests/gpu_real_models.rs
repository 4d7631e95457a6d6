//! Real models on the GPU against the CPU, token by token: where the CPU's best token leads clearly, the
//! GPU's is the same.
#![cfg(feature = "gpu")]

mod support;

use minfer::engine::{Batch, Context, GpuLayers, arg_max, log_sum_exp};
use minfer::graph::KvFormat;
use minfer::kv::SeqId;
use serde_json::Value;
use support::*;

/// What the CPU rounds and the GPU does not: activations to 8 bits before most products. Relative to the
/// largest logit, as `minfer verify` states it.
const TOLERANCE: f32 = 0.1;
/// The GPU rounds nothing but keys and values, so its log-probabilities of likely tokens are those of an f32
/// engine.
const REFERENCE_TOLERANCE: f64 = 1e-3;

fn step(context: &mut Context, seq: SeqId, tokens: &[u32]) -> Vec<f32> {
    context.decode(&Batch::prompt(seq, tokens)).expect("it runs").row(0).to_vec()
}

/// How far the best logit is ahead of the second.
fn margin(logits: &[f32]) -> f32 {
    let best = arg_max(logits) as usize;
    let others = logits.iter().enumerate().filter(|(id, _)| *id != best).map(|(_, logit)| *logit);
    logits[best] - others.fold(f32::NEG_INFINITY, f32::max)
}

fn assert_follows_the_cpu(name: &str, gpu_layers: GpuLayers, format: KvFormat) {
    const N_STEPS: usize = 6;
    let path = in_test_models(&format!("{name}.gguf"));
    let model = json(&format!("models/{name}.json"));
    let (mut cpu, mut gpu) =
        (context(&load(&path, 2), format), context(&gpu::load(&path, gpu_layers), format));
    let mut n_clear = 0;
    for prompt in chosen(&model) {
        let mut tokens = ids(&prompt["ids"]);
        let seqs = [&mut cpu, &mut gpu].map(|context| context.kv_mut().open().expect("a free sequence"));
        for _ in 0..N_STEPS {
            let (on_cpu, on_gpu) = (step(&mut cpu, seqs[0], &tokens), step(&mut gpu, seqs[1], &tokens));
            let tolerance = TOLERANCE * on_cpu.iter().fold(0f32, |largest, logit| largest.max(logit.abs()));
            let difference = on_cpu.iter().zip(&on_gpu).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(difference < tolerance, "{name} {}: {difference}, expected {tolerance}", prompt["name"]);
            if margin(&on_cpu) > tolerance {
                assert_eq!(arg_max(&on_cpu), arg_max(&on_gpu), "{name} {}", prompt["name"]);
                n_clear += 1;
            }
            tokens = vec![arg_max(&on_cpu)];
        }
    }
    println!("{name}: {n_clear} clear tokens");
    assert!(n_clear > 1, "the prompts have clear tokens");
}

/// Two prompts that show code and text outside ASCII.
fn chosen(model: &Value) -> impl Iterator<Item = &Value> {
    let prompts = model["prompts"].as_array().expect("prompts").iter();
    prompts.filter(|prompt| prompt["name"] == "code" || prompt["name"] == "chinese")
}

/// Every listed position of the prompts against the f32 reference.
fn assert_follows_the_reference(name: &str) {
    let path = in_test_models(&format!("{name}.gguf"));
    let model = json(&format!("models/{name}.json"));
    let mut context = context(&gpu::load(&path, GpuLayers::Auto), KvFormat::F32);
    let mut worst = 0f64;
    for prompt in chosen(&model) {
        let rows = all_logits(&mut context, &ids(&prompt["ids"]));
        for position in prompt["positions"].as_array().expect("positions") {
            let row = &rows[position["pos"].as_u64().expect("a position") as usize];
            let total = log_sum_exp(row);
            for pair in position["top8"].as_array().expect("pairs") {
                let (id, expected) = (pair[0].as_u64().expect("an id"), pair[1].as_f64().expect("a number"));
                let difference = (f64::from(row[id as usize]) - total - expected).abs();
                worst = worst.max(difference);
                assert!(
                    difference < REFERENCE_TOLERANCE,
                    "{name} {} {}: {difference}",
                    prompt["name"],
                    position["pos"]
                );
            }
        }
    }
    println!("{name}: largest difference of a log-probability from the reference {worst:e}");
}

#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn smollm2_on_the_gpu_is_as_an_f32_engine_has_it() {
    assert_follows_the_reference("smollm2-135m");
}

#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn qwen2_5_coder_on_the_gpu_is_as_an_f32_engine_has_it() {
    assert_follows_the_reference("qwen2.5-coder-0.5b");
}

#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn smollm2_on_the_gpu_says_what_it_says_on_the_cpu() {
    assert_follows_the_cpu("smollm2-135m", GpuLayers::Auto, KvFormat::F16);
}

#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn smollm2_with_eight_blocks_on_the_gpu_says_what_it_says_on_the_cpu() {
    assert_follows_the_cpu("smollm2-135m", GpuLayers::Count(8), KvFormat::Q8_0);
}

#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn qwen2_5_coder_on_the_gpu_says_what_it_says_on_the_cpu() {
    assert_follows_the_cpu("qwen2.5-coder-0.5b", GpuLayers::Auto, KvFormat::F16);
}
