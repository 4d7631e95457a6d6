//! Checking a backend against another one: what is the same passes, what is slightly wrong is found and
//! named.

mod support;

use std::sync::atomic::AtomicBool;

use minfer::engine::verify::*;
use minfer::engine::{Engine, EngineError, GpuLayers};
use minfer::graph::*;
use support::fake_device::{FakeDevice, Traits};
use support::tiny;

const MODELS: [&str; 3] = ["qwen2-tied-q4_0", "qwen3-untied-f16", "llama-untied-f32-bos"];

fn check(tested: &Engine, reference: &Engine) -> Result<VerifyReport, EngineError> {
    let prompt: Vec<u32> = (0..40).map(|i| i * 7 % 200).collect();
    let cancel = AtomicBool::new(false);
    let options = VerifyOptions { prompt: &prompt, n_decode: 3, kv_format: KvFormat::F16, cancel: &cancel };
    verify(tested, reference, &options)
}

fn with(name: &str, traits: Traits, gpu_layers: GpuLayers) -> VerifyReport {
    let tested = FakeDevice::new(traits).load(name, gpu_layers);
    check(&tested, &tiny(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_device_with_the_kernels_of_the_cpu_passes_without_any_difference() {
    for name in MODELS {
        let report = with(name, Traits::default(), GpuLayers::Auto);
        assert_eq!(report.failure(), None, "{name}");
        assert!(report.skipped.is_empty(), "{name}: {:?}", report.skipped);
        assert!(report.ops.iter().all(|op| op.difference == Difference::default()), "{:?}", report.ops);
        assert_eq!(report.logits.n_steps, 4);
        // As a whole the device runs as for a user, with eight bits of activations where weights are quantised; the
        // reference keeps sixteen.
        let is_exact = report.logits.difference == Difference::default();
        assert_eq!(is_exact, !name.contains("-q"), "{name}: {:?}", report.logits);
    }
}

#[test]
fn a_device_that_keeps_more_of_its_activations_than_the_cpu_passes_too() {
    for name in
        ["qwen2-tied-q4_0", "wide-qwen2-q4_k_m", "wide-llama-q6_k", "llama-tied-q8_0", "wide-qwen2-q2_k"]
    {
        let report = with(name, Traits { is_precise: true, ..Traits::default() }, GpuLayers::Auto);
        assert_eq!(report.failure(), None, "{name}: {report:?}");
        let products: Vec<_> = report.ops.iter().filter(|op| op.class.op == OpKind::MatMul).collect();
        assert!(products.iter().all(|op| op.difference.relative > 0.0), "{name}: {products:?}");
    }
}

/// Real weights have activations with outliers, as random ones have not.
#[test]
#[ignore = "needs MINFER_TEST_MODELS"]
fn a_precise_device_passes_with_real_models() {
    for file in ["smollm2-135m.gguf", "qwen2.5-coder-0.5b.gguf"] {
        let path = support::in_test_models(file);
        let device = FakeDevice::new(Traits { is_precise: true, ..Traits::default() });
        let tested = Engine::load(&path, &device.options(GpuLayers::Auto)).expect("it loads");
        let report = check(&tested, &support::load(&path, 2)).expect("it runs");
        for op in &report.ops {
            println!("{file}: {:?} {} x{}: {:?}", op.class.op, op.class.variant, op.n, op.difference);
        }
        println!("{file}: {:?}", report.logits);
        assert_eq!(report.failure(), None, "{file}");
    }
}

#[test]
fn every_executed_node_of_every_step_is_compared() {
    let name = MODELS[0];
    let report = with(name, Traits::default(), GpuLayers::Auto);
    let compared: usize = report.ops.iter().map(|op| op.n).sum();
    let mut context = tiny(name).context(&Default::default()).expect("it fits");
    let mut n_executed = |n_tokens, gtype| {
        let params = context.params(n_tokens, 1, gtype);
        let executable = context.executable(&params).expect("it compiles");
        executable.liveness().executed(executable.graph()).count()
    };
    assert_eq!(compared, n_executed(40, GraphType::Prefill) + 3 * n_executed(1, GraphType::Decode));
}

#[test]
fn an_op_that_is_slightly_wrong_is_caught_and_its_first_node_is_named() {
    let cases = [
        (OpKind::MatMul, "blk.0.attn_q"),
        (OpKind::RmsNorm, "blk.0.attn_norm"),
        (OpKind::RoPE, "blk.0.attn_q_rope"),
        (OpKind::Attn, "blk.0.attn"),
        (OpKind::SwiGLU, "blk.0.ffn_act"),
        (OpKind::Add, "blk.0.attn_residual"),
        (OpKind::GetRows, "token_embd"),
    ];
    for (wrong, node) in cases {
        let report = with(MODELS[0], Traits { wrong: Some(wrong), ..Traits::default() }, GpuLayers::Auto);
        let failure = report.first_failure.clone().unwrap_or_else(|| panic!("{wrong:?} passes"));
        assert_eq!((failure.node.as_str(), failure.class.op), (node, wrong));
        assert_eq!(failure.step, "prompt of 40 tokens");
        assert_eq!(failure.difference.at.index, 0, "the first element is wrong");
        let text = report.failure().expect("it fails");
        assert!(text.contains(&format!("node {node} ({wrong:?})")), "{text}");
        let failed: Vec<OpKind> = report.ops.iter().filter(|op| !op.passed()).map(|op| op.class.op).collect();
        assert!(failed.iter().all(|op| *op == wrong), "a wrong {wrong:?} harms no other op: {failed:?}");
    }
}

#[test]
fn nodes_that_the_device_does_not_run_are_listed_with_the_reason() {
    let lacks = Traits { lacks: Some(OpKind::Attn), ..Traits::default() };
    let report = with(MODELS[0], lacks, GpuLayers::Auto);
    assert_eq!(report.failure(), None);
    let n_layer = tiny(MODELS[0]).model().hparams.n_layer;
    let expected = (Skipped { op: OpKind::Attn, reason: "no kernel".to_string() }, 4 * n_layer);
    assert_eq!(report.skipped, [expected]);

    let report = with(MODELS[0], Traits::default(), GpuLayers::Count(1));
    assert_eq!(report.failure(), None);
    assert!(report.skipped.iter().all(|(skipped, _)| skipped.reason == "weights are not on the device"));
    assert!(report.skipped.iter().any(|(skipped, _)| skipped.op == OpKind::MatMul), "{:?}", report.skipped);

    let lacks = Traits { lacks: Some(OpKind::KvcacheStore), ..Traits::default() };
    let report = with(MODELS[0], lacks, GpuLayers::Auto);
    let reason = |op| {
        let found = report.skipped.iter().find(|(skipped, _)| skipped.op == op);
        found.map(|(skipped, _)| skipped.reason.as_str())
    };
    assert_eq!(reason(OpKind::Attn), Some("keys and values are not on the device"));
    assert_eq!(reason(OpKind::KvcacheStore), Some("no kernel"));
}

#[test]
fn any_backend_can_be_the_reference() {
    let fake = || FakeDevice::new(Traits::default()).load(MODELS[1], GpuLayers::Auto);
    assert_eq!(check(&tiny(MODELS[1]), &fake()).expect("it runs").failure(), None);
    assert_eq!(check(&fake(), &fake()).expect("it runs").failure(), None);
    let wrong = Traits { wrong: Some(OpKind::RmsNorm), ..Traits::default() };
    let wrong = FakeDevice::new(wrong).load(MODELS[1], GpuLayers::Auto);
    assert!(check(&tiny(MODELS[1]), &wrong).expect("it runs").failure().is_some());
}

#[test]
fn a_device_that_is_lost_meanwhile_is_an_error() {
    let mut options = FakeDevice::new(Traits::default()).options(GpuLayers::Auto);
    options.device.fault_after = Some(2);
    let path = support::reference(&format!("tiny/{}.gguf", MODELS[0]));
    let tested = Engine::load(&path, &options).expect("it loads");
    let error = check(&tested, &tiny(MODELS[0])).map(drop).expect_err("it is lost");
    assert!(error.to_string().contains("the device was lost"), "{error}");
}
