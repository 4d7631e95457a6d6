//! Real models on the GPU against the CPU, token by token: where the CPU's best token leads clearly, the GPU's is the same.
#![cfg(feature = "gpu")]

mod support;

use minfer::engine::{Batch, Context, GpuLayers, arg_max};
use minfer::graph::KvFormat;
use support::*;

/// The CPU multiplies 8-bit activations in most products and the GPU does not; logits of real models differ by less
/// than this, and a token that leads by more than twice as much is the best one on both.
const TOLERANCE: f32 = 1.0;
const N_STEPS: usize = 6;

fn step(context: &mut Context, seq: minfer::kv::SeqId, tokens: &[u32]) -> Vec<f32> {
    context.decode(&Batch::prompt(seq, tokens)).expect("it runs").row(0).to_vec()
}

/// How far the best logit is ahead of the second.
fn margin(logits: &[f32]) -> f32 {
    let best = arg_max(logits) as usize;
    let others = logits.iter().enumerate().filter(|(id, _)| *id != best).map(|(_, logit)| *logit);
    logits[best] - others.fold(f32::NEG_INFINITY, f32::max)
}

fn assert_follows_the_cpu(name: &str, gpu_layers: GpuLayers, format: KvFormat) {
    let path = in_test_models(&format!("{name}.gguf"));
    let prompts = json(&format!("models/{name}.json"))["prompts"].clone();
    let (mut cpu, mut gpu) =
        (context(&load(&path, 2), format), context(&gpu::load(&path, gpu_layers), format));
    let (mut n_clear, mut worst) = (0, 0f32);
    for prompt in
        prompts.as_array().expect("prompts").iter().filter(|p| p["name"] == "code" || p["name"] == "chinese")
    {
        let mut tokens = ids(&prompt["ids"]);
        let seqs = [&mut cpu, &mut gpu].map(|context| context.kv_mut().open().expect("a free sequence"));
        for _ in 0..N_STEPS {
            let (on_cpu, on_gpu) = (step(&mut cpu, seqs[0], &tokens), step(&mut gpu, seqs[1], &tokens));
            let difference = on_cpu.iter().zip(&on_gpu).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            worst = worst.max(difference);
            assert!(difference < TOLERANCE, "{name} {}: {difference}", prompt["name"]);
            if margin(&on_cpu) > 2.0 * TOLERANCE {
                assert_eq!(arg_max(&on_cpu), arg_max(&on_gpu), "{name} {}", prompt["name"]);
                n_clear += 1;
            }
            tokens = vec![arg_max(&on_cpu)];
        }
    }
    println!("{name}: {n_clear} clear tokens, largest difference of a logit {worst}");
    assert!(n_clear > 2, "the prompts have clear tokens");
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
