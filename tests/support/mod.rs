//! What several tests share: reference files, models, and the arithmetic of comparing distributions.
#![allow(dead_code, unreachable_pub)]

pub mod fake_device;
#[cfg(feature = "gpu")]
pub mod gpu;

use std::path::{Path, PathBuf};

use minfer::engine::{Batch, Context, ContextOptions, Engine, EngineOptions, log_sum_exp};
use minfer::gguf::{Gguf, OpenOptions};
use minfer::graph::KvFormat;
use minfer::text::{Tokenizer, Vocab};
use serde_json::Value;

/// A file of `tests/reference`.
pub fn reference(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(path)
}

/// A file of the folder `MINFER_TEST_MODELS`.
pub fn in_test_models(file: &str) -> PathBuf {
    let folder = std::env::var_os("MINFER_TEST_MODELS").expect("MINFER_TEST_MODELS names a folder of models");
    Path::new(&folder).join(file)
}

/// A JSON file of `tests/reference`.
pub fn json(path: &str) -> Value {
    let text = std::fs::read_to_string(reference(path)).expect("the reference is committed");
    serde_json::from_str(&text).expect("the reference is JSON")
}

/// The numbers of a JSON array.
pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("an array").iter().map(|n| n.as_f64().expect("a number")).collect()
}

/// The token ids of a JSON array.
pub fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("an array").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

/// A NumPy file of little-endian f32 in C order: its shape, and its values.
pub fn npy(path: &Path) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(path).expect("the array is there");
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "version 1.0");
    let start = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let header = std::str::from_utf8(&bytes[10..start]).expect("the header is ASCII");
    assert!(header.contains("'<f4'") && header.contains("'fortran_order': False"), "{header}");
    let dims = header.split_once("'shape': (").and_then(|(_, rest)| rest.split_once(')')).expect("a shape").0;
    let shape = dims.split(',').filter_map(|n| n.trim().parse().ok()).collect();
    let values =
        bytes[start..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    (shape, values)
}

/// The tokenizer of a model file.
pub fn tokenizer(path: &Path) -> Tokenizer {
    let gguf = Gguf::open(path, &OpenOptions::default()).expect("the file is valid");
    let vocab = Vocab::from_metadata(gguf.metadata()).expect("the metadata are complete");
    Tokenizer::new(vocab).expect("the vocabulary is usable")
}

/// Loads a model with `n_threads` threads.
pub fn load(path: &Path, n_threads: usize) -> Engine {
    let options = EngineOptions { n_threads: Some(n_threads), ..EngineOptions::default() };
    Engine::load(path, &options).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A tiny model of `tests/reference/tiny`.
pub fn tiny(name: &str) -> Engine {
    load(&reference(&format!("tiny/{name}.gguf")), 2)
}

/// A context with room for four sequences.
pub fn context(engine: &Engine, kv_format: KvFormat) -> Context {
    let options = ContextOptions { n_ctx: Some(1024), n_seq_max: 4, kv_format, ..ContextOptions::default() };
    engine.context(&options).expect("the context fits")
}

/// The logits of every position of `tokens`, computed at once in a sequence of their own.
pub fn all_logits(context: &mut Context, tokens: &[u32]) -> Vec<Vec<f32>> {
    let seq = context.kv_mut().open().expect("a free sequence");
    let logits = context.decode(&Batch::scored(seq, tokens)).expect("the batch runs");
    let rows = logits.rows().map(<[f32]>::to_vec).collect();
    context.kv_mut().close(seq).expect("the sequence is open");
    rows
}

/// Natural log-probabilities of a row of logits.
pub fn log_probs(logits: &[f32]) -> Vec<f64> {
    let total = log_sum_exp(logits);
    logits.iter().map(|&logit| logit as f64 - total).collect()
}

/// KL(reference || other) in nats, from logits.
pub fn kl(reference: &[f32], other: &[f32]) -> f64 {
    let (p, q) = (log_probs(reference), log_probs(other));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}

/// A lower bound of KL(reference || other), from the reference's most likely tokens alone: those, and
/// everything else as one bucket.
pub fn kl_of_top(top: &[(u32, f64)], other: &[f32]) -> f64 {
    let total = log_sum_exp(other);
    let (mut kl, mut p_seen, mut q_seen) = (0.0, 0.0, 0.0);
    for &(id, p) in top {
        let q = other[id as usize] as f64 - total;
        kl += p.exp() * (p - q);
        p_seen += p.exp();
        q_seen += q.exp();
    }
    let (p_rest, q_rest) = ((1.0 - p_seen).max(1e-12), (1.0 - q_seen).max(1e-12));
    kl + p_rest * (p_rest / q_rest).ln()
}

/// The mean of `values`; 0 if there are none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
