//! How answers grow and end, and which contexts are refused, on a tiny model.

mod support;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use minfer::engine::{
    Batch, Context, ContextOptions, Engine, EngineError, EngineOptions, FinishReason, GenerateOptions,
    Generated, Generator, Sampler, SamplerOptions, Session,
};
use minfer::gguf::{Gguf, GgufBuilder};
use minfer::graph::KvFormat;
use support::*;

const MODEL: &str = "qwen2-untied-f32";

fn prompt() -> Vec<u32> {
    ids(&json("tiny/expected.json")[MODEL]["prompts"][0]["ids"])
}

/// Tokens at most, and no end-of-generation token ends it.
fn at_most(n: usize) -> GenerateOptions {
    GenerateOptions { max_tokens: Some(n), ignore_eog: true, ..GenerateOptions::default() }
}

/// Generates in a new session; returns the pieces too.
fn generate(
    context: &mut Context,
    sampling: SamplerOptions,
    options: &GenerateOptions,
) -> (Generated, Vec<String>) {
    let mut pieces = Vec::new();
    let mut session = Session::open(context).expect("a free sequence");
    let generator = Generator {
        sampler: &mut Sampler::new(sampling).expect("in range"),
        options,
        cancel: &AtomicBool::new(false),
        on_piece: &mut |piece| {
            pieces.push(piece.to_string());
            ControlFlow::Continue(())
        },
    };
    let answer = session.generate(context, &prompt(), generator).expect("it runs");
    session.close(context).expect("open");
    (answer, pieces)
}

#[test]
fn a_stop_string_ends_the_answer_and_no_part_of_it_is_shown() {
    let mut context = context(&tiny(MODEL), KvFormat::F16);
    let (free, _) = generate(&mut context, SamplerOptions::greedy(), &at_most(60));
    let characters: Vec<char> = free.text.chars().collect();
    for (start, len) in [(5, 3), (11, 6), (20, 9)] {
        let stop: String = characters[start..start + len].iter().collect();
        let options = GenerateOptions { stop: vec![String::new(), stop.clone()], ..at_most(60) };
        let (answer, pieces) = generate(&mut context, SamplerOptions::greedy(), &options);
        let expected = &free.text[..free.text.find(&stop).expect("it is a part")];
        assert_eq!(answer.text, expected, "stop {stop:?}");
        assert_eq!(pieces.concat(), expected);
        assert_eq!(answer.finish, FinishReason::Stop);
    }
}

#[test]
fn pieces_are_the_text_and_the_text_is_what_the_tokens_spell() {
    let engine = tiny(MODEL);
    let (answer, pieces) =
        generate(&mut context(&engine, KvFormat::F16), SamplerOptions::greedy(), &at_most(60));
    assert_eq!(pieces.concat(), answer.text);
    assert_eq!(answer.text, engine.tokenizer().decode(&answer.ids));
    assert!(pieces.iter().all(|piece| !piece.is_empty()));
    assert_eq!((answer.ids.len(), answer.timings.n_generated), (60, 60));
    assert_eq!((answer.timings.n_prompt, answer.timings.n_cached), (prompt().len(), 0));
}

#[test]
fn every_end_of_generation_token_stops_and_is_not_shown() {
    let engine = tiny(MODEL);
    let mut context = context(&engine, KvFormat::F16);
    let ends = engine.tokenizer().ends_of_generation().to_vec();
    assert!(!ends.is_empty());
    for id in ends {
        let sampling = SamplerOptions { logit_bias: vec![(id, 1e6)], ..SamplerOptions::greedy() };
        let options = GenerateOptions { max_tokens: Some(5), ..GenerateOptions::default() };
        let (answer, pieces) = generate(&mut context, sampling.clone(), &options);
        assert_eq!((answer.finish, answer.ids.len(), pieces.len()), (FinishReason::Stop, 0, 0), "token {id}");
        let (answer, _) = generate(&mut context, sampling, &at_most(5));
        assert_eq!((answer.finish, answer.ids), (FinishReason::Length, vec![id; 5]));
    }
}

#[test]
fn zero_tokens_asked_for_are_zero_tokens() {
    let (answer, pieces) =
        generate(&mut context(&tiny(MODEL), KvFormat::F16), SamplerOptions::greedy(), &at_most(0));
    assert_eq!((answer.ids.len(), pieces.len(), answer.finish), (0, 0, FinishReason::Length));
}

#[test]
fn a_full_context_ends_the_answer_with_length() {
    let engine = tiny(MODEL);
    let options = ContextOptions { n_ctx: Some(64), ..ContextOptions::default() };
    let mut context = engine.context(&options).expect("it fits");
    let unlimited = GenerateOptions { ignore_eog: true, ..GenerateOptions::default() };
    let (answer, _) = generate(&mut context, SamplerOptions::greedy(), &unlimited);
    assert_eq!((prompt().len() + answer.ids.len(), answer.finish), (64, FinishReason::Length));
    let mut session = Session::open(&mut context).expect("the sequence was closed");
    let generator = Generator {
        sampler: &mut Sampler::new(SamplerOptions::greedy()).expect("in range"),
        options: &unlimited,
        cancel: &AtomicBool::new(false),
        on_piece: &mut |_| ControlFlow::Continue(()),
    };
    let error = session.generate(&mut context, &[1; 65], generator).expect_err("too long");
    assert!(matches!(error, EngineError::PromptTooLong { n_prompt: 65, n_ctx: 64 }), "{error}");
}

#[test]
fn a_cancelled_answer_leaves_a_session_that_goes_on() {
    let mut context = context(&tiny(MODEL), KvFormat::F16);
    let (whole, _) = generate(&mut context, SamplerOptions::greedy(), &at_most(30));
    let mut session = Session::open(&mut context).expect("a free sequence");
    let cancel = AtomicBool::new(false);
    for by_flag in [true, false] {
        let mut n_pieces = 0;
        let generator = Generator {
            sampler: &mut Sampler::new(SamplerOptions::greedy()).expect("in range"),
            options: &at_most(30),
            cancel: &cancel,
            on_piece: &mut |_| {
                n_pieces += 1;
                cancel.store(by_flag && n_pieces == 3, Ordering::Relaxed);
                if n_pieces == 3 && !by_flag { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        };
        let answer = session.generate(&mut context, &prompt(), generator).expect("it runs");
        assert_eq!(answer.finish, FinishReason::Cancelled);
        assert!(whole.text.starts_with(&answer.text) && answer.ids.len() < 30);
        cancel.store(false, Ordering::Relaxed);
    }
    let generator = Generator {
        sampler: &mut Sampler::new(SamplerOptions::greedy()).expect("in range"),
        options: &at_most(30),
        cancel: &cancel,
        on_piece: &mut |_| ControlFlow::Continue(()),
    };
    let answer = session.generate(&mut context, &prompt(), generator).expect("it runs");
    assert_eq!(answer.ids, whole.ids);
    assert_eq!(answer.timings.n_cached, prompt().len() - 1);
}

#[test]
fn empty_prompts_and_unknown_tokens_are_refused() {
    let engine = tiny(MODEL);
    let mut context = context(&engine, KvFormat::F16);
    let seq = context.kv_mut().open().expect("a free sequence");
    assert!(matches!(context.decode(&Batch::new()), Err(EngineError::EmptyPrompt)));
    let n_vocab = engine.model().hparams.n_vocab;
    for id in [n_vocab as u32, u32::MAX] {
        let error = context.decode(&Batch::prompt(seq, &[1, id])).expect_err("no such token").to_string();
        assert_eq!(error, format!("token id {id}: expected less than {n_vocab}, the size of the vocabulary"));
    }
    assert_eq!(context.kv().len(seq).expect("open"), 0);
}

/// The tiny model with other values in one tensor, or another number of tokens, in a folder of its own.
fn altered(change: impl FnOnce(&mut GgufBuilder<'_>), nan_in: Option<&str>) -> Result<Engine, EngineError> {
    let gguf = Gguf::open(&reference(&format!("tiny/{MODEL}.gguf")), &Default::default())?;
    let mut builder = GgufBuilder::new(gguf.metadata().clone());
    let tensors = gguf.tensors()?;
    for info in gguf.tensor_infos() {
        let tensor = tensors.get(&info.name).expect("listed");
        match nan_in == Some(&info.name) {
            true => builder.tensor_f32(&info.name, info.shape, &vec![f32::NAN; info.shape.n_elems()]),
            false => builder.tensor(&info.name, tensor.dtype, info.shape, tensor.bytes.to_vec()),
        }
        .expect("names are unique");
    }
    change(&mut builder);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("altered.gguf");
    builder.write_to(&path).expect("the folder is writable");
    Engine::load(&path, &EngineOptions::default())
}

#[test]
fn a_model_that_produces_nan_says_so_and_its_sequences_do_not_grow() {
    let engine = altered(|_| {}, Some("output_norm.weight")).expect("it loads");
    let mut context = context(&engine, KvFormat::F16);
    let seq = context.kv_mut().open().expect("a free sequence");
    let error = context.decode(&Batch::prompt(seq, &[1, 2, 3])).expect_err("NaN");
    assert_eq!(error.to_string(), "model produced NaN: logits of row 0");
    assert_eq!(context.kv().len(seq).expect("open"), 0);
}

#[test]
fn a_template_that_does_not_compile_is_a_warning_with_its_line() {
    let broken = |builder: &mut GgufBuilder<'_>| {
        builder.metadata_mut().insert("tokenizer.chat_template", "\n{% for x in %}");
    };
    let engine = altered(broken, None).expect("plain prompts work without a template");
    assert!(engine.template().expect("there is one").is_err());
    let warning =
        engine.warnings().iter().find(|warning| warning.starts_with("chat template")).expect("a warning");
    assert!(warning.contains("line 2"), "{warning}");
}

#[test]
fn contexts_that_cannot_be_are_refused_with_numbers_and_long_ones_are_warned_about() {
    let engine = tiny(MODEL);
    let open = |n_ctx: usize, kv_budget_bytes: Option<usize>| {
        engine.context(&ContextOptions { n_ctx: Some(n_ctx), kv_budget_bytes, ..ContextOptions::default() })
    };
    let refusal = |n_ctx, budget| open(n_ctx, budget).map(|_| ()).expect_err("too big").to_string();
    assert!(refusal(1_000_000_000_000, None).contains("1000000000000"));
    // 2 layers of 32 + 32 elements of 2 bytes.
    let text = "context of 1024 tokens: keys and values need 262144 bytes (1 MiB): expected at most 0 MiB";
    assert_eq!(refusal(1024, Some(0)), text);
    assert!(refusal(1 << 30, Some(1 << 30)).contains("274877906944 bytes (262144 MiB)"));
    assert_eq!(open(1024, None).expect("it fits").kv_bytes(), 262_144);
    assert_eq!(open(7, None).expect("it fits").n_ctx(), 32);
    assert!(open(512, None).expect("it fits").warnings().is_empty());
    let warnings = open(513, None).expect("it fits").warnings().to_vec();
    assert!(warnings.len() == 1 && warnings[0].contains("trained with 512"), "{warnings:?}");
    assert_eq!(engine.context(&ContextOptions::default()).expect("it fits").n_ctx(), 512);
}
