//! Token ids against llama.cpp's, recorded in `tests/reference/tokenizer`.

mod support;

use minfer::gguf::{Gguf, GgufBuilder, Metadata, StrArray, Value};
use minfer::text::{Specials, Tokenizer, TokenizerError, Vocab};
use serde_json::Value as Json;
use support::{ids, in_test_models, json, reference};

fn expectations() -> Json {
    json("tokenizer/tokenizer_shared.json")
}

fn unhex(value: &Json) -> Vec<u8> {
    let digits = value.as_str().expect("hex digits");
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hex")).collect()
}

/// Every recorded string, with and without special parsing, and every lossy byte string.
fn check_strings(vocab: &str, tokenizer: &Tokenizer) {
    let expectations = expectations();
    let mut n_checked = 0;
    for string in expectations["strings"].as_array().expect("list") {
        let text = String::from_utf8(unhex(&string["utf8_hex"])).expect("UTF-8");
        let expected = &string[vocab];
        let plain = ids(&expected["plain"]);
        assert_eq!(tokenizer.encode(&text, Specials::Plain).expect("short"), plain, "plain {text:?}");
        let special = expected.get("special").map_or(plain, ids);
        assert_eq!(tokenizer.encode(&text, Specials::Parse).expect("short"), special, "special {text:?}");
        n_checked += 1;
    }
    for bytes in expectations["raw_bytes"].as_array().expect("list") {
        let raw = unhex(&bytes["hex"]);
        let expected = ids(&bytes[vocab]["lossy_text"]);
        assert_eq!(tokenizer.encode_bytes(&raw, Specials::Plain).expect("short"), expected, "{raw:x?}");
    }
    assert!(n_checked > 300);
}

/// Ids with a role, and which ids end a generation or are control tokens.
fn check_roles(vocab: &str, tokenizer: &Tokenizer) {
    let expected = &expectations()["vocabs"][vocab];
    assert_eq!(tokenizer.n_vocab() as u64, expected["n_vocab"].as_u64().expect("number"));
    let id = |role: &Json| role.as_u64().map(|id| id as u32);
    let found = *tokenizer.ids();
    assert_eq!(found.bos, id(&expected["bos"]));
    assert_eq!(found.eos, id(&expected["eos"]));
    // llama.cpp takes the end of turn from an unordered map where the file names none: any of the ends is right.
    assert!(found.eot.is_some_and(|eot| tokenizer.is_end_of_generation(eot)));
    assert_eq!(found.pad, id(&expected["pad"]));
    assert_eq!(found.fim_pre, id(&expected["fim"]["pre"]));
    assert_eq!(found.fim_suf, id(&expected["fim"]["suf"]));
    assert_eq!(found.fim_mid, id(&expected["fim"]["mid"]));
    assert_eq!(tokenizer.ends_of_generation(), ids(&expected["eog"]));
    let control: Vec<u32> = (0..tokenizer.n_vocab() as u32).filter(|&id| tokenizer.is_control(id)).collect();
    assert_eq!(control, ids(&expected["control"]));
    assert_eq!(tokenizer.add_bos(), expected["add_bos"].as_bool().expect("flag"));
    assert_eq!(tokenizer.add_eos(), expected["add_eos"].as_bool().expect("flag"));
}

/// Bytes of all ids of a text are the text again, also when streamed.
fn check_round_trip(vocab: &str, tokenizer: &Tokenizer) {
    for string in expectations()["strings"].as_array().expect("list") {
        let text = String::from_utf8(unhex(&string["utf8_hex"])).expect("UTF-8");
        let ids = tokenizer.encode(&text, Specials::Plain).expect("short");
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.token_bytes(id)).copied().collect();
        // The SmolLM vocabulary lacks the tokens of some bytes.
        if vocab == "smollm" && bytes != text.as_bytes() {
            assert_eq!(string["category"], "control", "{text:?}");
            continue;
        }
        assert_eq!(bytes, text.as_bytes());
        assert_eq!(tokenizer.decode(&ids), text);
    }
}

#[test]
fn tiny_vocabulary_matches_llama_cpp() {
    let tokenizer = support::tokenizer(&reference("tiny/qwen2-untied-f32.gguf"));
    assert_eq!(tokenizer.warnings(), [] as [&str; 0]);
    check_roles("tiny", &tokenizer);
    check_strings("tiny", &tokenizer);
    check_round_trip("tiny", &tokenizer);
}

#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn qwen2_vocabulary_matches_llama_cpp() {
    let tokenizer = support::tokenizer(&in_test_models("qwen2.5-coder-0.5b.gguf"));
    check_roles("qwen2", &tokenizer);
    check_strings("qwen2", &tokenizer);
    check_round_trip("qwen2", &tokenizer);
    let fim =
        tokenizer.encode("<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", Specials::Parse).expect("short");
    assert_eq!(fim, [151659, 64, 151661, 65, 151660]);
}

#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn smollm_vocabulary_matches_llama_cpp() {
    let tokenizer = support::tokenizer(&in_test_models("smollm2-135m.gguf"));
    check_roles("smollm", &tokenizer);
    check_strings("smollm", &tokenizer);
    check_round_trip("smollm", &tokenizer);
}

#[test]
fn bos_is_added_where_the_model_asks_for_it() {
    let expectations = expectations();
    let add_bos = &expectations["add_bos"];
    let tokenizer =
        support::tokenizer(&reference(&format!("tiny/{}", add_bos["file"].as_str().expect("file name"))));
    assert!(tokenizer.add_bos());
    for case in add_bos["cases"].as_array().expect("list") {
        let text = case["text"].as_str().expect("text");
        assert_eq!(
            tokenizer.encode_sequence(text, Specials::Parse).expect("short"),
            ids(&case["ids_add_special"])
        );
        assert_eq!(tokenizer.encode(text, Specials::Parse).expect("short"), ids(&case["ids_no_add"]));
    }
}

/// A vocabulary of single letters and the given further tokens with their types.
fn small_metadata(further: &[(&str, i32)], merges: &[&str]) -> Metadata {
    let mut tokens: Vec<(String, i32)> = ('a'..='z').map(|c| (c.to_string(), 1)).collect();
    tokens.extend(further.iter().map(|&(text, token_type)| (text.to_owned(), token_type)));
    let mut metadata = Metadata::default();
    metadata.insert("tokenizer.ggml.model", "gpt2".to_owned());
    metadata.insert("tokenizer.ggml.pre", "gpt-2".to_owned());
    metadata.insert("tokenizer.ggml.tokens", tokens.iter().map(|(text, _)| text).collect::<StrArray>());
    metadata.insert("tokenizer.ggml.token_type", tokens.iter().map(|&(_, t)| t).collect::<Vec<i32>>());
    metadata.insert("tokenizer.ggml.merges", merges.iter().collect::<StrArray>());
    metadata
}

fn build(metadata: &Metadata) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::new(Vocab::from_metadata(metadata)?)
}

fn build_with(key: &str, value: impl Into<Value>) -> Result<Tokenizer, TokenizerError> {
    let mut metadata = small_metadata(&[("<end>", 3)], &[]);
    metadata.insert(key, value);
    build(&metadata)
}

#[test]
fn unknown_algorithm_and_pre_tokenizer_are_refused_by_name() {
    let error = build_with("tokenizer.ggml.model", "llama".to_owned()).expect_err("not BPE");
    assert_eq!(
        error.to_string(),
        "tokenizer: tokenizer.ggml.model: expected 'gpt2' (byte-level BPE), got 'llama'"
    );
    let error = build_with("tokenizer.ggml.pre", "foo".to_owned()).expect_err("unknown rule");
    assert_eq!(error.to_string(), "tokenizer: tokenizer.ggml.pre: unknown pre-tokenizer 'foo'");
    let hint = minfer::error::Hint::hint(&error).expect("lists the known names");
    assert!(hint.contains("qwen2") && hint.contains("smollm"), "{hint}");
}

#[test]
fn arrays_that_disagree_are_refused() {
    let error = build_with("tokenizer.ggml.token_type", vec![1i32; 3]).expect_err("too short");
    assert!(matches!(error, TokenizerError::Length { expected: 27, got: 3, .. }), "{error}");
    let error = build_with("tokenizer.ggml.tokens", vec![1u32, 2]).expect_err("numbers");
    assert!(error.to_string().contains("tokenizer.ggml.tokens"), "{error}");
    let error = build(&small_metadata(&[("a", 1)], &[])).expect_err("a twice");
    assert!(matches!(error, TokenizerError::Duplicate { first: 0, second: 26, .. }), "{error}");
}

#[test]
fn harmless_faults_are_warned_about_and_worked_around() {
    let tokenizer = build_with("tokenizer.ggml.eos_token_id", 1_000_000u32).expect("usable");
    assert_eq!(tokenizer.eos(), None);
    assert!(tokenizer.warnings()[0].contains("1000000"), "{:?}", tokenizer.warnings());

    let tokenizer = build(&small_metadata(&[("ab", 1)], &["a b", "nospace", "a zz", "q"])).expect("usable");
    assert_eq!(tokenizer.encode("abz", Specials::Plain).expect("short"), [26, 25]);
    assert!(
        tokenizer.warnings()[0].starts_with("tokenizer.ggml.merges: 3 of 4"),
        "{:?}",
        tokenizer.warnings()
    );

    let tokens: StrArray = [&b"a"[..], b"\xff\xfe", b""].iter().collect();
    let mut metadata = small_metadata(&[], &[]);
    metadata.insert("tokenizer.ggml.tokens", tokens);
    metadata.insert("tokenizer.ggml.token_type", vec![1i32, 3, 3]);
    let tokenizer = build(&metadata).expect("usable");
    assert_eq!(tokenizer.warnings().len(), 2, "{:?}", tokenizer.warnings());
    assert_eq!(tokenizer.encode("a", Specials::Parse).expect("short"), [0]);

    let tokenizer = build_with("tokenizer.ggml.add_bos_token", true).expect("usable");
    assert!(!tokenizer.add_bos() && tokenizer.warnings().len() == 1, "{:?}", tokenizer.warnings());
}

#[test]
fn a_model_may_have_several_ends_and_no_default_one() {
    let tokenizer =
        build(&small_metadata(&[("<|im_end|>", 4), ("<|endoftext|>", 1), ("<|eom_id|>", 3)], &[]))
            .expect("usable");
    assert_eq!(tokenizer.ends_of_generation(), [26, 27, 28]);
    assert!((26..29).all(|id| tokenizer.is_control(id)));
    assert_eq!(tokenizer.eos(), None);
    assert!(!tokenizer.is_end_of_generation(11));
}

#[test]
fn a_file_with_a_vocabulary_survives_a_round_trip_through_the_writer() {
    let bytes = GgufBuilder::new(small_metadata(&[("<end>", 3)], &[])).to_bytes().expect("small");
    let file = Gguf::from_bytes(&bytes).expect("valid");
    let tokenizer = build(file.metadata()).expect("usable");
    assert_eq!(tokenizer.encode("a<end>b", Specials::Parse).expect("short"), [0, 26, 1]);
}

/// A megabyte of the same thing, and of anything, takes time in proportion.
#[test]
fn long_uniform_texts_are_encoded_in_bounded_time() {
    let tokenizer = support::tokenizer(&reference("tiny/qwen2-untied-f32.gguf"));
    let n = 1 << 20;
    let mut state = 1u32;
    let random: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_u32(state >> 11).unwrap_or('\u{fffd}')
    })
    .take(n / 3)
    .collect();
    let texts = [
        " ".repeat(n),
        " ".repeat(n) + "x",
        "a".repeat(n),
        "\n".repeat(n),
        "<|im_".repeat(n / 5),
        "' ".repeat(n / 2),
        random,
    ];
    for text in texts {
        let start = std::time::Instant::now();
        let ids = tokenizer.encode(&text, Specials::Parse).expect("short enough");
        assert!(!ids.is_empty());
        assert!(start.elapsed().as_secs() < 10, "{:?}… took {:?}", text.get(..8), start.elapsed());
    }
}
