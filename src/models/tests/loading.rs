//! What is read from a file, and what is refused.

use super::*;
use crate::models::Architecture;

#[test]
fn the_head_is_the_embedding_table_unless_the_file_has_its_own() {
    let mut file = File::new("llama", SMALL);
    assert!(file.model().weights.tied());
    file.matrix("output.weight", 16, 40);
    let model = file.model();
    assert!(!model.weights.tied());
    assert_eq!(&*node(&build(&model, &params(1, 1)), "output").meta.weights[0].name, "output.weight");
}

#[test]
fn impossible_hyper_parameters_are_refused_by_key_and_value() {
    let cases: &[(&str, Value, &str)] = &[
        ("attention.head_count", Value::U32(0), "expected at least 1, got 0"),
        (
            "attention.head_count_kv",
            Value::U32(0),
            "expected a divisor of llama.attention.head_count 4, got 0",
        ),
        (
            "attention.head_count_kv",
            Value::U32(3),
            "expected a divisor of llama.attention.head_count 4, got 3",
        ),
        ("attention.key_length", Value::U32(0), "expected at least 1, got 0"),
        ("block_count", Value::U32(0), "expected at least 1, got 0"),
        ("block_count", Value::U32(1), "expected 2, the number of blocks in the file, got 1"),
        ("block_count", Value::U32(3), "expected 2, the number of blocks in the file, got 3"),
        ("block_count", Value::U32(1 << 31), "expected 2, the number of blocks in the file, got 2147483648"),
        ("embedding_length", Value::U32(0), "expected at least 1, got 0"),
        ("embedding_length", Value::U32(15), "expected 16 as in token_embd.weight [16, 40], got 15"),
        ("feed_forward_length", Value::U32(0), "expected at least 1, got 0"),
        ("context_length", Value::U32(0), "expected at least 1, got 0"),
        ("vocab_size", Value::U32(41), "expected 40 as in token_embd.weight [16, 40], got 41"),
        ("rope.dimension_count", Value::U32(3), "expected an even number from 2 to 4, got 3"),
        ("rope.dimension_count", Value::U32(1024), "expected an even number from 2 to 4, got 1024"),
        ("rope.freq_base", Value::F32(0.0), "expected a positive number, got 0"),
        ("rope.freq_base", Value::F32(f32::NAN), "expected a positive number, got NaN"),
        ("rope.scaling.factor", Value::F32(-2.0), "expected a positive number, got -2"),
        (
            "attention.layer_norm_rms_epsilon",
            Value::F32(f32::NAN),
            "expected a number that is not negative, got NaN",
        ),
        ("expert_count", Value::U32(8), "expected 0: mixtures of experts are not supported, got 8"),
    ];
    for (key, value, message) in cases {
        let mut file = File::new("llama", SMALL);
        file.set(&format!("llama.{key}"), value.clone());
        assert_eq!(file.refusal(), format!("hyper-parameter llama.{key}: {message}"));
    }
}

#[test]
fn unknown_rope_scaling_is_refused_by_name() {
    let mut file = File::new("qwen2", SMALL);
    file.set("qwen2.rope.scaling.type", Value::Str("longrope".to_string()));
    assert!(
        file.refusal().ends_with("expected none, linear or yarn, got \"longrope\""),
        "{}",
        file.refusal()
    );
}

#[test]
fn missing_tensor_wrong_shape_and_unknown_architecture_are_three_messages() {
    let mut file = File::new("qwen2", SMALL);
    file.tensors.remove("blk.1.ffn_up.weight");
    assert_eq!(file.refusal(), "missing tensor blk.1.ffn_up.weight: architecture qwen2 needs it");
    file.matrix("blk.1.ffn_up.weight", 24, 16);
    assert_eq!(file.refusal(), "shape of tensor blk.1.ffn_up.weight: expected [16, 24], got [24, 16]");
    let file = File::new("foo9", SMALL);
    assert_eq!(file.refusal(), "unknown architecture \"foo9\": expected one of llama, qwen2, qwen3");
    assert_eq!(Architecture::supported().count(), 3);
}

#[test]
fn matrices_of_indices_are_refused() {
    for name in ["token_embd.weight", "blk.1.attn_v.weight", "blk.0.ffn_down.weight"] {
        let mut file = File::new("llama", SMALL);
        file.tensors.get_mut(name).expect("there").1 = DType::I32;
        let message = format!("type of tensor {name}: expected a float or block-quantised type, got I32");
        assert_eq!(file.refusal(), message);
    }
}

#[test]
fn norms_that_are_not_f32_are_refused() {
    let mut file = File::new("qwen3", SMALL);
    file.tensors.insert("blk.0.attn_q_norm.weight".to_string(), (Shape::d1(4), DType::F16));
    assert_eq!(file.refusal(), "type of tensor blk.0.attn_q_norm.weight: expected F32, got F16");
}

#[test]
fn head_dim_is_its_own_key_or_follows_from_the_heads() {
    let HParams { head_dim, .. } = File::new("qwen3", Sizes { head_dim: 8, ..SMALL }).model().hparams;
    assert_eq!(head_dim, 8);
    let mut file = File::new("qwen2", SMALL);
    file.metadata.remove("qwen2.attention.key_length");
    file.metadata.remove("qwen2.attention.value_length");
    assert_eq!(file.model().hparams.head_dim, 4);
    file.set("qwen2.attention.head_count", Value::U32(3));
    file.set("qwen2.attention.head_count_kv", Value::U32(3));
    let message =
        "hyper-parameter qwen2.attention.head_count: expected a divisor of qwen2.embedding_length 16, got 3";
    assert_eq!(file.refusal(), message);
}

#[test]
fn rope_scaling_follows_the_metadata() {
    let scaled = |kind: &str, factor: f32| {
        let mut file = File::new("qwen2", SMALL);
        file.set("qwen2.rope.scaling.type", Value::Str(kind.to_string()));
        file.set("qwen2.rope.scaling.factor", Value::F32(factor));
        file.set("qwen2.rope.scaling.original_context_length", Value::U32(128));
        file.model().hparams.rope
    };
    assert_eq!(scaled("none", 4.0).freq_scale, 1.0);
    assert_eq!(scaled("linear", 4.0).freq_scale, 0.25);
    assert_eq!(scaled("linear", 0.0).freq_scale, 1.0);
    assert!(scaled("linear", 4.0).yarn.is_none());
    let yarn = scaled("yarn", 4.0);
    assert_eq!(yarn.freq_scale, 0.25);
    let constants = yarn.yarn.expect("yarn");
    assert_eq!((constants.n_ctx_orig, constants.beta_fast, constants.beta_slow), (128, 32.0, 1.0));
}
