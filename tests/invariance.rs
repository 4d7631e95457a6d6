//! The same tokens give the same bits, whatever the threads, the chunks, the neighbours and the cache.

mod support;

use std::path::{Path, PathBuf};

use minfer::engine::{Batch, Context, ContextOptions, Engine, EngineError, Session};
use minfer::gguf::Gguf;
use minfer::graph::{GraphType, KvFormat};
use minfer::kv::{KvError, SeqId};
use std::sync::atomic::AtomicBool;
use support::*;

/// One model of each architecture and of several weight types.
const MODELS: [&str; 7] = [
    "qwen2-untied-f32",
    "qwen2-tied-q4_0",
    "qwen3-untied-f16",
    "qwen3-tied-q5_0",
    "llama-untied-f32-bos",
    "wide-llama-q6_k",
    "wide-qwen2-q4_k_m",
];

fn tiny_path(name: &str) -> PathBuf {
    reference(&format!("tiny/{name}.gguf"))
}

/// Arbitrary tokens that differ from seed to seed.
fn tokens(engine: &Engine, seed: u32, n: usize) -> Vec<u32> {
    let n_vocab = engine.model().hparams.n_vocab as u32;
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % n_vocab
    };
    std::iter::repeat_with(next).take(n).collect()
}

fn open(context: &mut Context) -> SeqId {
    context.kv_mut().open().expect("a free sequence")
}

/// Logits of every position of `tokens` in `seq`, computed `n_chunk` tokens at a time.
fn in_chunks(context: &mut Context, seq: SeqId, tokens: &[u32], n_chunk: usize) -> Vec<Vec<f32>> {
    let mut rows = Vec::new();
    for chunk in tokens.chunks(n_chunk) {
        let logits = context.decode(&Batch::scored(seq, chunk)).expect("it runs");
        rows.extend(logits.rows().map(<[f32]>::to_vec));
    }
    rows
}

/// Equal bit for bit; says where not.
fn assert_same_bits(a: &[Vec<f32>], b: &[Vec<f32>], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (position, (a, b)) in a.iter().zip(b).enumerate() {
        let differ = a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
        if let Some(id) = differ {
            panic!("{what}: position {position} token {id}: {} and {}", a[id], b[id]);
        }
    }
}

/// Checks one model file with `n_tokens` tokens.
fn check(path: &Path, format: KvFormat, n_tokens: usize) {
    let name = format!("{} {format:?}", path.file_name().unwrap_or_default().to_string_lossy());
    let one = load(path, 1);
    let two = load(path, 2);
    let prompt = tokens(&one, 1, n_tokens);
    let mut reference_context = context(&one, format);
    let expected = all_logits(&mut reference_context, &prompt);
    let mut context = context(&two, format);
    assert_same_bits(&expected, &all_logits(&mut context, &prompt), &format!("{name}: 1 and 2 threads"));
    for n_chunk in [7, 1] {
        let seq = open(&mut context);
        let rows = in_chunks(&mut context, seq, &prompt, n_chunk);
        assert_same_bits(&expected, &rows, &format!("{name}: chunks of {n_chunk}"));
        context.kv_mut().close(seq).expect("open");
    }
    let rows = among_others(&mut context, &two, &prompt);
    assert_same_bits(&expected, &rows, &format!("{name}: with three other sequences"));
}

/// Logits of `prompt`, whose tokens are mixed with those of three other sequences of other lengths and ages.
fn among_others(context: &mut Context, engine: &Engine, prompt: &[u32]) -> Vec<Vec<f32>> {
    let mut others = Vec::new();
    for seed in 2..5 {
        let seq = open(context);
        let past = tokens(engine, seed, 11 * seed as usize);
        context.decode(&Batch::prompt(seq, &past)).expect("it runs");
        others.push((seq, tokens(engine, seed + 10, prompt.len())));
    }
    let ours = open(context);
    let (mut batch, mut is_ours) = (Batch::new(), Vec::new());
    for (i, &token) in prompt.iter().enumerate() {
        for (k, (seq, tokens)) in others.iter().enumerate() {
            if (i + k) % 2 == 0 {
                batch.push(*seq, tokens[i], k == 0);
                is_ours.extend((k == 0).then_some(false));
            }
        }
        batch.push(ours, token, true);
        is_ours.push(true);
    }
    let logits = context.decode(&batch).expect("it runs");
    let rows = logits.rows().zip(&is_ours).filter(|(_, ours)| **ours).map(|(row, _)| row.to_vec()).collect();
    for seq in others.into_iter().map(|(seq, _)| seq).chain([ours]) {
        context.kv_mut().close(seq).expect("open");
    }
    rows
}

#[test]
fn threads_chunks_and_neighbours_do_not_change_a_bit_of_the_logits() {
    for name in MODELS {
        check(&tiny_path(name), KvFormat::F16, 75);
    }
}

#[test]
fn nor_do_they_with_keys_and_values_in_blocks() {
    for name in ["qwen3-untied-f16", "llama-untied-f32-bos", "wide-qwen2-q4_k_m"] {
        check(&tiny_path(name), KvFormat::Q8_0, 75);
    }
}

#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn threads_chunks_and_neighbours_do_not_change_a_bit_in_test_models() {
    let dir = PathBuf::from(std::env::var("MINFER_TEST_MODELS").expect("MINFER_TEST_MODELS names a folder"));
    for name in ["smollm2-135m", "qwen2.5-coder-0.5b"] {
        check(&dir.join(format!("{name}.gguf")), KvFormat::F16, 40);
        check(&dir.join(format!("{name}.gguf")), KvFormat::Q8_0, 40);
    }
}

#[test]
fn smaller_context_keeps_logits() {
    let engine = tiny("qwen2-tied-q4_0");
    let prompt = tokens(&engine, 3, 60);
    let with = |n_ctx: usize| {
        let options = ContextOptions { n_ctx: Some(n_ctx), ..ContextOptions::default() };
        all_logits(&mut engine.context(&options).expect("it fits"), &prompt)
    };
    assert_same_bits(&with(64), &with(512), "contexts of 64 and 512");
}

#[test]
fn forked_sequences_share_their_past_and_go_their_own_way() {
    for format in [KvFormat::F16, KvFormat::Q8_0] {
        forks_go_their_own_way(format);
    }
}

fn forks_go_their_own_way(format: KvFormat) {
    let engine = tiny("qwen3-tied-f32");
    let mut context = context(&engine, format);
    let (past, left, right) = (tokens(&engine, 1, 40), tokens(&engine, 2, 30), tokens(&engine, 3, 30));
    let trunk = open(&mut context);
    context.decode(&Batch::prompt(trunk, &past)).expect("it runs");
    let free = context.kv().n_free_pages();
    let branch = context.kv_mut().fork(trunk, past.len()).expect("a free sequence");
    assert_eq!(context.kv().n_free_pages(), free, "a fork takes no page");
    let on_branch = in_chunks(&mut context, branch, &right, 4);
    let on_trunk = in_chunks(&mut context, trunk, &left, 9);
    for (rows, future) in [(on_trunk, left), (on_branch, right)] {
        let alone = all_logits(&mut self::context(&engine, format), &[past.clone(), future].concat());
        assert_same_bits(&alone[past.len()..], &rows, "a branch and the same tokens alone");
    }
}

#[test]
fn a_session_computes_only_what_differs_from_its_past() {
    let engine = tiny("llama-tied-q8_0");
    let mut context = context(&engine, KvFormat::F16);
    let cancel = AtomicBool::new(false);
    let mut session = Session::open(&mut context).expect("a free sequence");
    let first = tokens(&engine, 1, 50);
    session.extend(&mut context, &first, &cancel).expect("it runs");
    let second = [&first[..33], &tokens(&engine, 2, 20)[..]].concat();
    assert_eq!(session.rewind(&mut context, &second).expect("open"), 33);
    let reused = session.extend(&mut context, &second[33..], &cancel).expect("it runs").row(0).to_vec();
    assert_eq!(session.tokens(), second);
    let alone = all_logits(&mut self::context(&engine, KvFormat::F16), &second);
    assert_same_bits(&alone[second.len() - 1..], &[reused], "reused and alone");
    assert_eq!(
        session.rewind(&mut context, &second).expect("open"),
        second.len() - 1,
        "the last token is wanted anew"
    );
}

#[test]
fn a_full_context_is_an_error_that_changes_nothing() {
    let engine = tiny("qwen2-untied-f32");
    let options = ContextOptions { n_ctx: Some(64), n_seq_max: 2, n_batch: 16, ..ContextOptions::default() };
    let mut context = engine.context(&options).expect("it fits");
    let (ours, other) = (open(&mut context), open(&mut context));
    let prompt = tokens(&engine, 1, 40);
    context.decode(&Batch::prompt(ours, &prompt[..10])).expect("it runs");
    let error = context.decode(&Batch::prompt(other, &prompt)).expect_err("two pages, one is taken");
    assert!(matches!(error, EngineError::Kv(KvError::Full { .. })), "{error}");
    assert_eq!(context.kv().len(other).expect("open"), 0);
    let rows = in_chunks(&mut context, ours, &prompt[10..], 30);
    let alone = all_logits(&mut self::context(&engine, KvFormat::F16), &prompt);
    assert_same_bits(&alone[10..], &rows, "after a refusal and alone");
}

#[test]
fn toggling_fusion_rebuilds_the_graph_and_keeps_both() {
    let engine = tiny("qwen2-untied-f32");
    let mut context = context(&engine, KvFormat::F16);
    let prompt = tokens(&engine, 1, 5);
    let seq = open(&mut context);
    let on = in_chunks(&mut context, seq, &prompt, 1);
    let (built, params) = (context.n_graph_builds(), context.params(1, 1, GraphType::Decode));
    context.set_fusion(false, false);
    assert_ne!(context.params(1, 1, GraphType::Decode), params);
    let seq = open(&mut context);
    let off = in_chunks(&mut context, seq, &prompt, 1);
    assert_eq!(context.n_graph_builds(), built + 1);
    context.set_fusion(true, true);
    let seq = open(&mut context);
    let on_again = in_chunks(&mut context, seq, &prompt, 1);
    assert_eq!(context.n_graph_builds(), built + 1, "the first graph is still there");
    assert_same_bits(&on, &off, "fused and unfused");
    assert_same_bits(&on, &on_again, "before and after");
}

/// `qwen2-untied-f32` with 300 in every lane of the Q and K biases, so that Q·K is far beyond the range of
/// f16.
fn with_huge_biases(dir: &Path) -> PathBuf {
    let gguf = Gguf::open(&tiny_path("qwen2-untied-f32"), &Default::default()).expect("it is committed");
    let mut builder = minfer::gguf::GgufBuilder::new(gguf.metadata().clone());
    let tensors = gguf.tensors().expect("known types");
    for info in gguf.tensor_infos() {
        let tensor = tensors.get(&info.name).expect("listed");
        let is_bias = info.name.ends_with("attn_q.bias") || info.name.ends_with("attn_k.bias");
        match is_bias {
            true => builder.tensor_f32(&info.name, info.shape, &vec![300.0; info.shape.n_elems()]),
            false => builder.tensor(&info.name, tensor.dtype, info.shape, tensor.bytes.to_vec()),
        }
        .expect("names are unique");
    }
    let path = dir.join("huge-biases.gguf");
    builder.write_to(&path).expect("the folder is writable");
    path
}

#[test]
fn huge_query_and_key_biases_do_not_overflow() {
    let dir = tempfile::tempdir().expect("a folder");
    let engine = load(&with_huge_biases(dir.path()), 2);
    let prompt = tokens(&engine, 1, 40);
    let exact = all_logits(&mut context(&engine, KvFormat::F32), &prompt);
    let half = all_logits(&mut context(&engine, KvFormat::F16), &prompt);
    for (exact, half) in exact.iter().zip(&half) {
        assert!(exact.iter().all(|logit| logit.is_finite()));
        let difference = exact.iter().zip(half).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference.is_finite(), "{difference}");
    }
}

#[test]
fn a_format_that_does_not_suit_the_heads_is_refused_by_name() {
    let engine = tiny("qwen2-untied-f32");
    let options = ContextOptions { kv_format: KvFormat::Q8_0, ..ContextOptions::default() };
    let error = engine.context(&options).map(drop).expect_err("its heads have 16 elements");
    let text = "context: keys and values as Q8_0: head_dim: expected a multiple of 32, got 16";
    assert_eq!(error.to_string(), text);
    assert!(matches!(error, EngineError::KvFormat { got: 16, .. }));
}
