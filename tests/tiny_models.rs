//! Tiny models with random weights against an f32 reference that someone else wrote
//! (`tests/reference/README.md`).

mod support;

use minfer::engine::{
    Batch, FinishReason, GenerateOptions, Generator, Sampler, SamplerOptions, Session, arg_max, log_sum_exp,
};
use minfer::graph::KvFormat;
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use support::*;

/// Models whose weights are exact in f32, and which an engine with f32 keys and values must therefore match
/// closely.
fn is_exact(name: &str) -> bool {
    name.contains("-f32") || name.contains("-f16") || name.contains("-bf16")
}

/// Every model with its expectations.
fn models() -> Vec<(String, Value)> {
    let Value::Object(models) = json("tiny/expected.json") else { panic!("an object") };
    assert!(models.len() >= 28, "the reference has all variants");
    models.into_iter().collect()
}

/// `(name, prompt, reference logits of the last position)` of every model that `wanted` picks.
fn prompts(wanted: impl Fn(&str) -> bool) -> Vec<(String, Value, Vec<f32>)> {
    let mut prompts = Vec::new();
    for (name, model) in models().into_iter().filter(|(name, _)| wanted(name)) {
        let (shape, values) = npy(&reference(&format!("tiny/{name}.logits.npy")));
        for prompt in model["prompts"].as_array().expect("prompts") {
            let row = prompt["logits_row"].as_u64().expect("a row") as usize;
            let logits = values[row * shape[1]..(row + 1) * shape[1]].to_vec();
            prompts.push((name.clone(), prompt.clone(), logits));
        }
    }
    prompts
}

#[test]
fn exact_weights_give_the_reference_logits_within_1e_3() {
    let mut worst: f32 = 0.0;
    for (name, prompt, expected) in prompts(is_exact) {
        let mut context = context(&tiny(&name), KvFormat::F32);
        let rows = all_logits(&mut context, &ids(&prompt["ids"]));
        let last = rows.last().expect("a position");
        let difference = last.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference < 1e-3, "{name} {}: {difference}", prompt["name"]);
        let total = log_sum_exp(last) - prompt["logsumexp"].as_f64().expect("a number");
        assert!(total.abs() < 1e-3, "{name} {}: log-sum-exp off by {total}", prompt["name"]);
        worst = worst.max(difference);
    }
    println!("largest difference {worst:e}");
}

#[test]
fn exact_weights_choose_the_reference_token_at_every_position() {
    for (name, prompt, _) in prompts(is_exact) {
        let mut context = context(&tiny(&name), KvFormat::F32);
        let rows = all_logits(&mut context, &ids(&prompt["ids"]));
        let expected = ids(&prompt["argmax_per_position"]);
        let log_probs_expected = numbers(&prompt["argmax_logprob_per_position"]);
        assert_eq!(rows.len(), expected.len());
        for (position, row) in rows.iter().enumerate() {
            let (best, total) = (arg_max(row), log_sum_exp(row));
            let wanted = row[expected[position] as usize];
            assert!(row[best as usize] - wanted < 1e-3, "{name} position {position}: {best}");
            let off = wanted as f64 - total - log_probs_expected[position];
            assert!(off.abs() < 1e-3, "{name} position {position}: log-probability off by {off}");
        }
    }
}

#[test]
fn quantised_weights_are_as_close_to_the_reference_as_llama_cpp() {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for (name, prompt, expected) in prompts(|name| !is_exact(name)) {
        let mut context = context(&tiny(&name), KvFormat::F16);
        let rows = all_logits(&mut context, &ids(&prompt["ids"]));
        ours.push(kl(&expected, rows.last().expect("a position")));
        let llama = &prompt["llama_cpp"]["default"];
        theirs.push(llama["last_kl"].as_f64().expect("a number"));
        // One position is noisy: any single one may be a few times worse, the mean may not.
        let limit = 5.0 * llama["max_kl"].as_f64().expect("a number") + 1e-4;
        let got = *ours.last().expect("just pushed");
        assert!(got < limit, "{name} {}: KL {got:e}, limit {limit:e}", prompt["name"]);
    }
    let (ours, theirs) = (mean(&ours), mean(&theirs));
    println!("mean KL {ours:e}, llama.cpp {theirs:e}");
    assert!(ours < 1.2 * theirs + 1e-5, "mean KL {ours:e}, llama.cpp {theirs:e}");
}

#[test]
fn keys_and_values_in_blocks_stay_near_the_reference() {
    let suits = |name: &str| tiny(name).model().hparams.head_dim.is_multiple_of(KvFormat::Q8_0.block_elems());
    let mut kls = Vec::new();
    for (name, prompt, expected) in prompts(|name| is_exact(name) && suits(name)) {
        let mut context = context(&tiny(&name), KvFormat::Q8_0);
        let rows = all_logits(&mut context, &ids(&prompt["ids"]));
        kls.push(kl(&expected, rows.last().expect("a position")));
        let got = *kls.last().expect("just pushed");
        assert!(got < 3e-3, "{name} {}: KL {got:e}", prompt["name"]);
    }
    println!("mean KL {:e} over {}", mean(&kls), kls.len());
    assert!(kls.len() > 5 && mean(&kls) < 6e-4, "mean KL {:e} over {}", mean(&kls), kls.len());
    assert!(mean(&kls) > 1e-9, "they are rounded: mean KL {:e}", mean(&kls));
}

#[test]
fn greedy_text_follows_the_reference_while_its_margins_are_clear() {
    for (name, prompt, _) in prompts(|_| true) {
        let margin = if is_exact(&name) { 1e-2 } else { 0.5 };
        let (expected, margins) = (ids(&prompt["greedy32"]), numbers(&prompt["greedy32_margin"]));
        let n_clear = margins.iter().take_while(|&&m| m > margin).count();
        let mut context = context(&tiny(&name), KvFormat::F32);
        let mut session = Session::open(&mut context).expect("a free sequence");
        let mut sampler = Sampler::new(SamplerOptions::greedy()).expect("in range");
        let options = GenerateOptions { max_tokens: Some(32), ignore_eog: true, ..Default::default() };
        let generator = Generator {
            sampler: &mut sampler,
            options: &options,
            cancel: &AtomicBool::new(false),
            on_piece: &mut |_| ControlFlow::Continue(()),
        };
        let answer = session.generate(&mut context, &ids(&prompt["ids"]), generator).expect("it runs");
        assert_eq!(answer.ids.len(), 32);
        assert_eq!(answer.finish, FinishReason::Length);
        assert_eq!(answer.ids[..n_clear], expected[..n_clear], "{name} {}", prompt["name"]);
    }
}

#[test]
fn text_and_bos_tokenise_as_the_reference_says() {
    for (name, model) in models() {
        let engine = tiny(&name);
        let prompt = &model["prompts"][0];
        let text = prompt["text"].as_str().expect("the first prompt is a text");
        let encoded =
            engine.tokenizer().encode_sequence(text, minfer::text::Specials::Plain).expect("it encodes");
        assert_eq!(encoded, ids(&prompt["ids"]), "{name}");
    }
}

#[test]
fn one_batch_serves_sequences_with_different_prompts() {
    let engine = tiny("qwen3-tied-f32");
    let model = json("tiny/expected.json");
    let prompts = model["qwen3-tied-f32"]["prompts"].as_array().expect("prompts").clone();
    let (shape, values) = npy(&reference("tiny/qwen3-tied-f32.logits.npy"));
    let mut context = context(&engine, KvFormat::F32);
    let mut batch = Batch::new();
    for prompt in &prompts {
        let seq = context.kv_mut().open().expect("a free sequence");
        let tokens = ids(&prompt["ids"]);
        for (i, &token) in tokens.iter().enumerate() {
            batch.push(seq, token, i + 1 == tokens.len());
        }
    }
    let logits = context.decode(&batch).expect("it runs");
    for (row, prompt) in logits.rows().zip(&prompts) {
        let at = prompt["logits_row"].as_u64().expect("a row") as usize * shape[1];
        let difference = row.iter().zip(&values[at..]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference < 1e-3, "{}: {difference}", prompt["name"]);
    }
}
