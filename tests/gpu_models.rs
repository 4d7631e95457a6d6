//! Tiny models of every architecture on the GPU: against the f32 reference, fused against unfused, whole and
//! in part, and with every kernel counted.
#![cfg(feature = "gpu")]

mod support;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use minfer::engine::{Batch, BenchTest, Context, GpuLayers, log_sum_exp};
use minfer::graph::*;
use support::*;

fn on_gpu(name: &str, gpu_layers: GpuLayers) -> minfer::engine::Engine {
    gpu::load(&reference(&format!("tiny/{name}.gguf")), gpu_layers)
}

fn model_names() -> Vec<String> {
    let serde_json::Value::Object(models) = json("tiny/expected.json") else { panic!("an object") };
    assert!(models.len() >= 28, "the reference has all variants");
    models.into_iter().map(|(name, _)| name).collect()
}

/// Nothing but the weights is rounded on the GPU, so what they are rounded to is all that may differ.
fn is_exact(name: &str) -> bool {
    name.contains("-f32") || name.contains("-f16") || name.contains("-bf16")
}

/// Logits of a prompt at once, and of one more token after it.
fn prefill_and_step(context: &mut Context, tokens: &[u32]) -> (Vec<Vec<f32>>, Vec<f32>) {
    let seq = context.kv_mut().open().expect("a free sequence");
    let rows =
        context.decode(&Batch::scored(seq, tokens)).expect("it runs").rows().map(<[f32]>::to_vec).collect();
    let step = context.decode(&Batch::prompt(seq, &tokens[..1])).expect("it runs").row(0).to_vec();
    context.kv_mut().close(seq).expect("open");
    (rows, step)
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn every_tiny_model_gives_the_reference_logits() {
    let expected = json("tiny/expected.json");
    for name in model_names() {
        let (shape, values) = npy(&reference(&format!("tiny/{name}.logits.npy")));
        let mut context = context(&on_gpu(&name, GpuLayers::Auto), KvFormat::F32);
        for prompt in expected[&name]["prompts"].as_array().expect("prompts") {
            let row = prompt["logits_row"].as_u64().expect("a row") as usize;
            let reference = &values[row * shape[1]..(row + 1) * shape[1]];
            let rows = all_logits(&mut context, &ids(&prompt["ids"]));
            let last = rows.last().expect("a position");
            let difference = largest_difference(last, reference);
            assert!(difference < 1e-3, "{name} {}: {difference}", prompt["name"]);
            let total = log_sum_exp(last) - prompt["logsumexp"].as_f64().expect("a number");
            assert!(total.abs() < 1e-3, "{name} {}: log-sum-exp off by {total}", prompt["name"]);
        }
        let params = context.params(1, 1, GraphType::Decode);
        let graph = context.executable(&params).expect("it compiles").graph();
        assert!(
            graph.nodes.iter().all(|node| node.backend == Some(gpu::built().known.id)),
            "{name}: all on the GPU"
        );
    }
}

#[test]
fn any_number_of_offloaded_blocks_stays_close_to_the_cpu_and_makes_the_planned_copies() {
    let tokens: Vec<u32> = (0..37).map(|i| i * 7 % 300).collect();
    for name in ["qwen2-untied-f32", "qwen3-untied-f16", "llama-untied-f32-bos"] {
        assert!(is_exact(name));
        let (rows, step) = prefill_and_step(&mut context(&tiny(name), KvFormat::F32), &tokens);
        let n_layer = tiny(name).model().hparams.n_layer;
        for gpu_layers in 1..=n_layer {
            let mut context = context(&on_gpu(name, GpuLayers::Count(gpu_layers)), KvFormat::F32);
            let copies = Arc::new(Mutex::new(Vec::new()));
            context.set_observer(Box::new(Copies(Arc::clone(&copies))));
            let (mixed_rows, mixed_step) = prefill_and_step(&mut context, &tokens);
            for (row, mixed) in rows.iter().zip(&mixed_rows).chain([(&step, &mixed_step)]) {
                let difference = largest_difference(row, mixed);
                assert!(difference < 1e-3, "{name}, {gpu_layers} blocks: {difference}");
            }
            let mut planned = Vec::new();
            for (n_tokens, gtype) in [(tokens.len(), GraphType::Prefill), (1, GraphType::Decode)] {
                let params = context.params(n_tokens, n_tokens, gtype);
                let executable = context.executable(&params).expect("it is cached");
                planned.extend_from_slice(executable.copies());
                assert_eq!(executable.splits().len(), if gpu_layers == n_layer { 1 } else { 3 });
            }
            assert_eq!(*copies.lock().expect("whole"), planned, "{name}, {gpu_layers} blocks");
        }
    }
}

struct Copies(Arc<Mutex<Vec<ValueCopy>>>);

impl Observer for Copies {
    fn copied(&mut self, copy: &ValueCopy) {
        self.0.lock().expect("whole").push(*copy);
    }
}

/// A node's name and value.
type Named = (String, Vec<f32>);

/// The values of the nodes that end a layer's halves.
#[derive(Clone, Default)]
struct Layers(Arc<Mutex<Vec<Named>>>);

impl Observer for Layers {
    fn node_end(&mut self, node: &Node, value: &mut NodeValue<'_>) {
        if node.name.ends_with("_residual") {
            let mut out = Vec::new();
            assert!(value.read_f32(&mut out).expect("it is read"), "{} is f32", node.name);
            self.0.lock().expect("whole").push((node.name.clone(), out));
        }
    }
}

fn n_nodes(context: &mut Context, kind: OpKind) -> usize {
    let params = context.params(1, 1, GraphType::Decode);
    let executable = context.executable(&params).expect("it compiles");
    executable.liveness().executed(executable.graph()).filter(|node| node.op.kind() == kind).count()
}

#[test]
fn fused_qkv_matches_unfused_decode() {
    // Biased, biased with mixed types, without either, normed, normed with mixed types.
    let models =
        ["qwen2-tied-q4_0", "wide-qwen2-q4_k_m", "llama-untied-q4_0", "qwen3-tied-q5_0", "wide-qwen3-q5_k_m"];
    let mut formats_met = HashSet::new();
    for name in models {
        let engine = on_gpu(name, GpuLayers::Auto);
        let head_dim = engine.model().hparams.head_dim;
        let formats = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];
        for format in formats.into_iter().filter(|format| head_dim.is_multiple_of(format.block_elems())) {
            formats_met.insert(format);
            let n_layer = engine.model().hparams.n_layer;
            let has_norms = name.contains("qwen3");
            let mut runs = Vec::new();
            for (fuse_qkv, fuse_ffn) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut context = context(&engine, format);
                context.set_fusion(fuse_qkv, fuse_ffn);
                let count = |is_on: bool| if is_on { n_layer } else { 0 };
                assert_eq!(n_nodes(&mut context, OpKind::FusedQKV), count(fuse_qkv), "{name}");
                assert_eq!(
                    n_nodes(&mut context, OpKind::FusedQkvNorm),
                    count(fuse_qkv && has_norms),
                    "{name}"
                );
                assert_eq!(
                    n_nodes(&mut context, OpKind::QkvBiasRopeStore),
                    count(fuse_qkv && !has_norms),
                    "{name}"
                );
                assert_eq!(n_nodes(&mut context, OpKind::FusedFFN), count(fuse_ffn), "{name}");
                let layers = Layers::default();
                let seq = context.kv_mut().open().expect("a free sequence");
                let mut logits = Vec::new();
                for token in [5, 17, 100, 3] {
                    let batch = Batch::prompt(seq, &[token]);
                    let step = context.decode_observed(&batch, &mut layers.clone()).expect("it runs");
                    logits.push(step.row(0).to_vec());
                }
                let layers = std::mem::take(&mut *layers.0.lock().expect("whole"));
                assert_eq!(layers.len(), 4 * 2 * n_layer, "{name}");
                runs.push((logits, layers));
            }
            for run in &runs[1..] {
                assert_eq!(run.1, runs[0].1, "{name} {format:?}: the output of every layer, to the bit");
                assert_eq!(run.0, runs[0].0, "{name} {format:?}: the logits, to the bit");
            }
        }
    }
    assert_eq!(formats_met.len(), 3, "some model's heads are whole blocks");
}

#[test]
fn a_decoded_token_takes_a_known_number_of_kernels_and_bytes() {
    // Per block: norm + Q/K/V (one kernel per type), biases + rotation + store, attention (two kernels, as
    // the context is split), projection + residual, norm + gate/up + activation, down + residual.
    for (name, per_block) in [("qwen2-tied-q4_0", 7), ("qwen3-tied-q5_0", 7), ("llama-untied-q4_0", 7)] {
        let engine = on_gpu(name, GpuLayers::Auto);
        let n_layer = engine.model().hparams.n_layer as u64;
        let mut context = context(&engine, KvFormat::F16);
        let weights_bytes = decode_weight_bytes(&mut context);
        let run = context.bench(BenchTest::Decode { n_gen: 3, depth: 2 }).expect("it runs");
        let n_pages = (context.n_ctx() / PAGE_TOKENS * 4) as u64;
        let expected = WorkCounts {
            // Embedding, final norm and head come besides the blocks.
            dispatches: 3 * (n_layer * per_block + 3),
            submissions: 3,
            weights_read_bytes: 3 * weights_bytes,
            uploaded_bytes: 3 * 4 * (4 + n_pages),
            downloaded_bytes: 3 * 4 * engine.model().hparams.n_vocab as u64,
        };
        assert_eq!(run.work, expected, "{name}");
    }
}

#[test]
fn a_fused_block_takes_at_most_eight_kernels_whatever_the_types_of_its_weights() {
    for name in model_names() {
        let engine = on_gpu(&name, GpuLayers::Auto);
        let n_layer = engine.model().hparams.n_layer as u64;
        let run =
            context(&engine, KvFormat::F16).bench(BenchTest::Decode { n_gen: 1, depth: 0 }).expect("it runs");
        assert!(run.work.dispatches <= n_layer * 8 + 3, "{name}: {} kernels", run.work.dispatches);
    }
}

/// Bytes of all weights that a decode step reads: all rows of matrices, one row of the embedding.
fn decode_weight_bytes(context: &mut Context) -> u64 {
    let params = context.params(1, 1, GraphType::Decode);
    let executable = context.executable(&params).expect("it compiles");
    let bytes = |node: &Node| -> u64 {
        let of_all =
            |weight: &WeightRef| weight.dtype.bytes_for(weight.shape.n_elems()).expect("whole blocks");
        let of_row =
            |weight: &WeightRef| weight.dtype.bytes_for(weight.shape.row_len()).expect("whole blocks");
        let of = if node.op.kind() == OpKind::GetRows { of_row } else { of_all };
        node.meta.weights.iter().map(|weight| of(weight) as u64).sum()
    };
    executable.liveness().executed(executable.graph()).map(bytes).sum()
}
