//! Drafts change how fast an answer grows, and nothing else.

mod support;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use minfer::engine::{
    Batch, Context, ContextOptions, Draft, Engine, EngineError, FinishReason, GenerateOptions, Generated,
    Generator, GpuLayers, Sampler, SamplerOptions, Session,
};
use minfer::error::Hint;
use minfer::gguf::{Gguf, GgufBuilder, Metadata, StrArray};
use minfer::graph::KvFormat;
use minfer::text::Specials;
use support::fake_device::{FakeDevice, Traits};
use support::*;

const MODEL: &str = "qwen2-untied-f32";

/// Source text with a request to change a little of it: the answer repeats most of the prompt.
const EDIT: &str = "Rename `total` to `sum` in this function and repeat it:\n\
    fn total(values: &[f32]) -> f32 {\n    let mut total = 0.0;\n    for value in values {\n        total += value;\n    }\n    total\n}\n\
    fn sum(values: &[f32]) -> f32 {\n    let mut sum = 0.0;\n";
/// Text that is not in the prompt already.
const PROSE: &str = "The old lighthouse keeper looked out over the sea and thought about";

/// What ends an answer, with settings that leave the choice of tokens alone.
fn at_most(n: usize) -> GenerateOptions {
    GenerateOptions { max_tokens: Some(n), ignore_eog: true, ..GenerateOptions::default() }
}

fn seeded(seed: u64) -> SamplerOptions {
    SamplerOptions { temperature: 1.0, top_k: 0, seed, ..SamplerOptions::default() }
}

/// Greedy, seeded, and with everything that depends on the tokens before.
fn samplings() -> [SamplerOptions; 4] {
    let penalties = SamplerOptions {
        repeat_penalty: 1.1,
        presence_penalty: 0.2,
        frequency_penalty: 0.1,
        penalty_last_n: 16,
        ..seeded(3)
    };
    [SamplerOptions::greedy(), seeded(1), SamplerOptions { temperature: 0.5, ..seeded(2) }, penalties]
}

/// An answer, its pieces, and the tokens that its session holds afterwards.
#[derive(PartialEq, Debug)]
struct Outcome {
    ids: Vec<u32>,
    text: String,
    finish: FinishReason,
    pieces: Vec<String>,
    computed: Vec<u32>,
}

fn generate(
    context: &mut Context,
    draft: Option<Draft>,
    prompt: &[u32],
    sampling: &SamplerOptions,
    options: &GenerateOptions,
) -> (Outcome, Generated) {
    let mut session = Session::open(context).expect("a free sequence");
    if let Some(draft) = draft {
        session.set_draft(context, draft).expect("it suits the model");
    }
    let mut pieces = Vec::new();
    let generator = Generator {
        sampler: &mut Sampler::new(sampling.clone()).expect("in range"),
        options,
        cancel: &AtomicBool::new(false),
        on_piece: &mut |piece| {
            pieces.push(piece.to_string());
            ControlFlow::Continue(())
        },
    };
    let answer = session.generate(context, prompt, generator).expect("it runs");
    let computed = session.tokens().to_vec();
    assert_eq!(context.kv().len(session.seq()).expect("open"), computed.len());
    session.close(context).expect("open");
    let Generated { ids, text, finish, .. } = answer.clone();
    (Outcome { ids, text, finish, pieces, computed }, answer)
}

/// A model that drafts for itself is right whenever the most likely token is chosen.
fn model_draft(engine: &Engine, n_max: usize) -> Draft {
    Draft::model(context(engine, KvFormat::F16), n_max).expect("a free sequence")
}

/// Checks that no draft changes an answer of `n` tokens; returns the tokens that were drafted and right.
fn check(engine: &Engine, prompt: &[u32], n: usize) -> [usize; 2] {
    let mut context = context(engine, KvFormat::F16);
    let mut counts = [0, 0];
    for sampling in samplings() {
        let (plain, answer) = generate(&mut context, None, prompt, &sampling, &at_most(n));
        assert_eq!((answer.timings.n_drafted, answer.timings.n_accepted), (0, 0));
        for n_max in [1, 3, 8] {
            for draft in [Draft::ngram(n_max), model_draft(engine, n_max)] {
                let name = format!("{draft:?} {n_max} {sampling:?}");
                let (drafted, answer) = generate(&mut context, Some(draft), prompt, &sampling, &at_most(n));
                assert_eq!(drafted, plain, "{name}");
                counts[0] += answer.timings.n_drafted;
                counts[1] += answer.timings.n_accepted;
            }
        }
    }
    counts
}

fn encode(engine: &Engine, text: &str) -> Vec<u32> {
    engine.tokenizer().encode_sequence(text, Specials::Parse).expect("it can be spelled")
}

#[test]
fn drafts_change_no_token_and_no_state_of_greedy_and_seeded_answers() {
    for name in [MODEL, "qwen3-tied-q5_0", "llama-untied-f32-bos", "wide-qwen2-q4_k_m"] {
        let engine = tiny(name);
        for text in [EDIT, PROSE] {
            let [n_drafted, n_accepted] = check(&engine, &encode(&engine, text), 60);
            assert!(n_accepted > 0 && n_accepted < n_drafted, "{name}: {n_accepted} of {n_drafted}");
        }
    }
}

/// Logits of `tokens`, each step with some wrong guesses that are taken back.
fn logits_with_guesses(context: &mut Context, tokens: &[u32]) -> Vec<Vec<f32>> {
    let seq = context.kv_mut().open().expect("a free sequence");
    let mut rows = Vec::new();
    let mut n_right = 0;
    while rows.len() < tokens.len() {
        n_right = (n_right + 1) % 4;
        let at = rows.len();
        let right = &tokens[at..(at + 1 + n_right).min(tokens.len())];
        let batch = [right, &[7, 3, 7]].concat();
        let logits = context.decode(&Batch::scored(seq, &batch)).expect("it runs");
        rows.extend(logits.rows().take(right.len()).map(<[f32]>::to_vec));
        context.kv_mut().truncate(seq, rows.len()).expect("open");
    }
    context.kv_mut().close(seq).expect("open");
    rows
}

#[test]
fn wrong_guesses_that_are_taken_back_change_no_bit_of_the_logits() {
    for name in [MODEL, "wide-llama-q6_k"] {
        let engine = tiny(name);
        let mut context = context(&engine, KvFormat::F16);
        let tokens: Vec<u32> = (0..90).map(|i| i * 37 % 200).collect();
        let plain: Vec<Vec<f32>> = {
            let seq = context.kv_mut().open().expect("a free sequence");
            let mut step =
                |token| context.decode(&Batch::prompt(seq, &[token])).expect("it runs").row(0).to_vec();
            tokens.iter().map(|&token| step(token)).collect()
        };
        let bits = |rows: &[Vec<f32>]| rows.iter().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert!(bits(&plain) == bits(&logits_with_guesses(&mut context, &tokens)), "{name}");
    }
}

#[test]
fn stop_strings_limits_and_ends_are_where_they_are_without_drafts() {
    let engine = tiny(MODEL);
    let mut context = context(&engine, KvFormat::F16);
    let prompt = encode(&engine, EDIT);
    let greedy = SamplerOptions::greedy();
    let (free, _) = generate(&mut context, None, &prompt, &greedy, &at_most(60));
    let characters: Vec<char> = free.text.chars().collect();
    let stop: String = characters[20..25].iter().collect();
    let end = engine.tokenizer().ends_of_generation()[0];
    let favoured = SamplerOptions { logit_bias: vec![(end, 4.0)], ..seeded(5) };
    let plainly = GenerateOptions { ignore_eog: false, ..at_most(200) };
    let mut cases = vec![(greedy.clone(), GenerateOptions { stop: vec![stop], ..at_most(60) })];
    cases.extend((0..12).map(|n| (greedy.clone(), at_most(n))));
    cases.push((favoured, plainly));
    for (sampling, options) in cases {
        let (plain, _) = generate(&mut context, None, &prompt, &sampling, &options);
        for draft in [Draft::ngram(8), model_draft(&engine, 8)] {
            let (drafted, answer) = generate(&mut context, Some(draft), &prompt, &sampling, &options);
            assert_eq!(drafted, plain, "{options:?}");
            assert_eq!(answer.timings.n_generated, drafted.ids.len());
        }
    }
}

#[test]
fn a_full_context_ends_a_drafted_answer_where_it_ends_a_plain_one() {
    let engine = tiny(MODEL);
    let options = ContextOptions { n_ctx: Some(256), ..ContextOptions::default() };
    let mut context = engine.context(&options).expect("it fits");
    let unlimited = GenerateOptions { ignore_eog: true, ..GenerateOptions::default() };
    let prompt = encode(&engine, PROSE);
    let (plain, _) = generate(&mut context, None, &prompt, &SamplerOptions::greedy(), &unlimited);
    assert_eq!((prompt.len() + plain.ids.len(), plain.finish), (256, FinishReason::Length));
    let small = ContextOptions { n_ctx: Some(128), ..ContextOptions::default() };
    let short = Draft::model(engine.context(&small).expect("it fits"), 8).expect("a free sequence");
    for draft in [Draft::ngram(8), model_draft(&engine, 8), short] {
        let (drafted, _) =
            generate(&mut context, Some(draft), &prompt, &SamplerOptions::greedy(), &unlimited);
        assert_eq!(drafted, plain);
    }
}

#[test]
fn a_drafted_answer_is_cancelled_at_the_same_token() {
    let engine = tiny(MODEL);
    let mut context = context(&engine, KvFormat::F16);
    let prompt = encode(&engine, EDIT);
    for n_pieces in [1, 5, 6, 7, 20] {
        let mut outcomes = Vec::new();
        for draft in [None, Some(Draft::ngram(8)), Some(model_draft(&engine, 8))] {
            let mut session = Session::open(&mut context).expect("a free sequence");
            if let Some(draft) = draft {
                session.set_draft(&context, draft).expect("it suits the model");
            }
            let (cancel, mut n_seen) = (AtomicBool::new(false), 0);
            let generator = Generator {
                sampler: &mut Sampler::new(SamplerOptions::greedy()).expect("in range"),
                options: &at_most(60),
                cancel: &cancel,
                on_piece: &mut |_| {
                    n_seen += 1;
                    cancel.store(n_seen == n_pieces, Ordering::Relaxed);
                    ControlFlow::Continue(())
                },
            };
            let answer = session.generate(&mut context, &prompt, generator).expect("it runs");
            assert_eq!(answer.finish, FinishReason::Cancelled);
            outcomes.push((answer.ids, answer.text, session.tokens().to_vec()));
            session.close(&mut context).expect("open");
        }
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
    }
}

/// The tiny model with other metadata, in a folder of its own.
fn altered(change: impl FnOnce(&mut Metadata)) -> Engine {
    let gguf =
        Gguf::open(&reference(&format!("tiny/{MODEL}.gguf")), &Default::default()).expect("it is valid");
    let mut builder = GgufBuilder::new(gguf.metadata().clone());
    let tensors = gguf.tensors().expect("known types");
    for info in gguf.tensor_infos() {
        let tensor = tensors.get(&info.name).expect("listed");
        let added = builder.tensor(&info.name, tensor.dtype, info.shape, tensor.bytes.to_vec());
        added.expect("names are unique");
    }
    change(builder.metadata_mut());
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("altered.gguf");
    builder.write_to(&path).expect("the folder is writable");
    load(&path, 2)
}

#[test]
fn a_draft_model_with_other_tokens_is_refused() {
    let engine = tiny(MODEL);
    let mut context = context(&engine, KvFormat::F16);
    let (end, word) = (engine.tokenizer().ends_of_generation()[0] as usize, 300);
    let renamed = altered(|metadata| {
        let tokens = metadata.require_str_array("tokenizer.ggml.tokens").expect("it is there").clone();
        let rename =
            |(id, text): (usize, &[u8])| if id == end { b"<|other|>".to_vec() } else { text.to_vec() };
        let tokens: StrArray = tokens.iter().enumerate().map(rename).collect();
        metadata.insert("tokenizer.ggml.tokens", tokens);
    });
    let retyped = altered(|metadata| {
        let types = metadata.i64_array("tokenizer.ggml.token_type").expect("numbers").expect("it is there");
        let mut types: Vec<i32> = types.into_iter().map(|number| number as i32).collect();
        assert_eq!(types[word], 1, "an ordinary token");
        types[word] = 4;
        metadata.insert("tokenizer.ggml.token_type", types);
    });
    for (id, other) in [(end, renamed), (word, retyped)] {
        let mut session = Session::open(&mut context).expect("a free sequence");
        let error = session.set_draft(&context, model_draft(&other, 8)).expect_err("another vocabulary");
        assert!(matches!(error, EngineError::DraftVocab { .. }), "{error}");
        assert!(error.to_string().starts_with(&format!("draft model: token {id}: expected ")), "{error}");
        session.close(&mut context).expect("open");
    }
}

#[test]
fn a_device_whose_results_may_differ_takes_no_part_in_drafts() {
    let engine = FakeDevice::new(Traits::default()).load("qwen2-tied-q4_0", GpuLayers::Count(1));
    let mut context = context(&engine, KvFormat::F16);
    let mut session = Session::open(&mut context).expect("a free sequence");
    let error = session.set_draft(&context, Draft::ngram(8)).expect_err("a layer runs on the device");
    assert!(matches!(error, EngineError::DraftOnDevice { .. }), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("--backend cpu")));
}

fn real_model(file: &str) {
    let engine = load(&in_test_models(file), minfer::threads::default_threads());
    let mut context = context(&engine, KvFormat::F16);
    for text in [EDIT, PROSE] {
        let prompt = encode(&engine, text);
        for sampling in [SamplerOptions::greedy(), seeded(1)] {
            let (plain, _) = generate(&mut context, None, &prompt, &sampling, &at_most(40));
            for draft in [Draft::ngram(8), model_draft(&engine, 4)] {
                let (drafted, _) = generate(&mut context, Some(draft), &prompt, &sampling, &at_most(40));
                assert_eq!(drafted, plain);
            }
        }
    }
}

#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn drafts_change_nothing_of_what_smollm2_answers() {
    real_model("smollm2-135m.gguf");
}
