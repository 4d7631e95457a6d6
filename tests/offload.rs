//! What a device takes of a model: blocks, weights, memory, and what is refused.

mod support;

use std::sync::Arc;

use minfer::engine::*;
use minfer::error::Hint;
use minfer::graph::*;
use support::fake_device::{FakeDevice, Traits};
use support::{all_logits, context, reference, tiny};

const TIED: &str = "qwen2-tied-q4_0";
const UNTIED: &str = "qwen3-untied-f16";
const TOKENS: [u32; 9] = [5, 17, 2, 90, 33, 4, 71, 8, 8];

fn fake() -> Arc<FakeDevice> {
    FakeDevice::new(Traits::default())
}

fn with_memory(memory_bytes: usize) -> Arc<FakeDevice> {
    FakeDevice::new(Traits { memory_bytes: Some(memory_bytes), ..Traits::default() })
}

fn load(name: &str, options: &EngineOptions) -> Result<Engine, EngineError> {
    Engine::load(&reference(&format!("tiny/{name}.gguf")), options)
}

fn n_layer(name: &str) -> usize {
    tiny(name).model().hparams.n_layer
}

/// The least memory with which all blocks of `name` fit.
fn needed(name: &str, gpu_layers: usize) -> usize {
    let refused = load(name, &with_memory(0).options(GpuLayers::Count(gpu_layers))).map(drop);
    match refused.expect_err("nothing fits into no memory") {
        EngineError::OffloadTooBig { need, .. } => need.total_bytes(),
        other => panic!("{other}"),
    }
}

#[test]
fn any_number_of_layers_gives_the_logits_of_the_cpu() {
    for name in [TIED, UNTIED] {
        let alone = all_logits(&mut context(&tiny(name), KvFormat::F16), &TOKENS);
        for n in 0..=n_layer(name) {
            let engine = fake().load(name, GpuLayers::Count(n));
            assert_eq!(engine.placement().gpu_layers, n, "{name}");
            let mixed = all_logits(&mut context(&engine, KvFormat::F16), &TOKENS);
            assert_eq!(mixed, alone, "{name}: {n} layers on the device");
        }
    }
}

#[test]
fn the_device_gets_the_weights_of_its_blocks_and_a_tied_table_once() {
    for (name, n_around) in [(TIED, 2), (UNTIED, 3)] {
        let n_layer = n_layer(name);
        let uploaded = |n: usize| {
            let device = fake();
            device.load(name, GpuLayers::Count(n));
            let uploads = device.uploads.lock().expect("no panic").clone();
            assert_eq!(uploads.len(), 1, "{name}: {n} layers");
            uploads.into_iter().next().expect("one")
        };
        let (some, groups) = uploaded(1);
        assert!(some.iter().all(|weight| weight.starts_with("blk.0.")), "{some:?}");
        let qkv = ["q", "k", "v"].map(|part| format!("blk.0.attn_{part}.weight")).to_vec();
        let gate_up = ["gate", "up"].map(|part| format!("blk.0.ffn_{part}.weight")).to_vec();
        assert_eq!(groups, [qkv, gate_up]);
        let (all, groups) = uploaded(n_layer);
        assert_eq!(groups.len(), 2 * n_layer);
        let in_file: Vec<String> =
            tiny(name).gguf().tensor_infos().iter().map(|info| info.name.to_string()).collect();
        assert_eq!(all.iter().cloned().collect::<Vec<_>>().len(), in_file.len(), "{name}");
        let n_blocks = all.iter().filter(|weight| weight.starts_with("blk.")).count();
        assert_eq!(all.len() - n_blocks, n_around, "{name}: {all:?}");
    }
}

#[test]
fn auto_takes_the_longest_prefix_that_fits() {
    let n_layer = n_layer(TIED);
    for n in 1..=n_layer {
        let bytes = needed(TIED, n);
        let taken = |bytes| with_memory(bytes).load(TIED, GpuLayers::Auto).placement().gpu_layers;
        assert_eq!((taken(bytes), taken(bytes - 1)), (n, n - 1), "{bytes} bytes");
    }
    assert_eq!(fake().load(TIED, GpuLayers::Auto).placement().gpu_layers, n_layer, "without a limit");
}

#[test]
fn what_auto_takes_can_run_with_the_context_that_it_was_planned_for() {
    let n_layer = n_layer(TIED);
    let device = with_memory(needed(TIED, n_layer));
    let engine = device.load(TIED, GpuLayers::Auto);
    let mut context = engine.context(&ContextOptions::default()).expect("there is room for it");
    let tokens: Vec<u32> = (0..500).map(|i| i % 300).collect();
    let seq = context.kv_mut().open().expect("a free sequence");
    for (first, n) in [(0, 400), (400, 90), (490, 1), (491, 1)] {
        context.decode(&Batch::scored(seq, &tokens[first..first + n])).expect("there is room for it");
    }
}

#[test]
fn a_larger_expected_context_leaves_room_for_fewer_layers() {
    let n_layer = n_layer(TIED);
    let device = with_memory(needed(TIED, n_layer));
    let mut options = device.options(GpuLayers::Auto);
    options.device.context.n_ctx = Some(1 << 16);
    assert!(load(TIED, &options).expect("it loads").placement().gpu_layers < n_layer);
}

#[test]
fn a_context_whose_keys_do_not_fit_in_one_piece_leaves_the_device_alone_or_is_refused() {
    let device = FakeDevice::new(Traits { max_region_bytes: Some(1 << 20), ..Traits::default() });
    let mut options = device.options(GpuLayers::Auto);
    assert!(load(TIED, &options).expect("it loads").placement().gpu_layers > 0, "a short context fits");
    options.device.context.n_ctx = Some(1 << 16);
    let engine = load(TIED, &options).expect("the CPU does it");
    assert_eq!(engine.placement().gpu_layers, 0);
    let is_told = |warning: &String| warning.contains("keys or values of a layer need ");
    assert!(engine.warnings().iter().any(is_told), "{:?}", engine.warnings());
    options.device.gpu_layers = GpuLayers::Count(1);
    let error = load(TIED, &options).map(drop).expect_err("too large");
    assert!(error.to_string().contains("expected at most 1.0 MiB, got "), "{error}");
    assert!(error.hint().expect("a hint").contains("a smaller context"));
}

#[test]
fn a_number_of_layers_that_does_not_fit_is_refused_with_numbers_and_what_to_change() {
    let n_layer = n_layer(TIED);
    let device = with_memory(needed(TIED, 1));
    let error = load(TIED, &device.options(GpuLayers::Count(n_layer))).map(drop).expect_err("too much");
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("{n_layer} of {n_layer} layers on Vulkan: expected at most ")),
        "{text}"
    );
    for part in [" MiB, got ", "weights ", "keys and values ", "intermediate results "] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let hint = error.hint().expect("a hint");
    assert!(hint.starts_with("1 layers fit") && hint.contains("--gpu-memory"), "{hint}");
    assert!(device.uploads.lock().expect("no panic").is_empty(), "nothing is uploaded before the check");
}

#[test]
fn memory_that_the_user_allows_replaces_what_the_device_reports() {
    let n_layer = n_layer(TIED);
    let device = with_memory(usize::MAX);
    let mut options = device.options(GpuLayers::Auto);
    options.device.memory_bytes = Some(needed(TIED, 1));
    assert_eq!(load(TIED, &options).expect("it loads").placement().gpu_layers, 1);
    options.device.memory_bytes = Some(1000);
    let engine = load(TIED, &options).expect("the CPU does it");
    assert_eq!((engine.placement().to_string().as_str(), engine.placement().n_layer), ("CPU", n_layer));
    let is_told = |warning: &String| warning.starts_with("Vulkan is not used: one block needs ");
    assert!(engine.warnings().iter().any(is_told), "{:?}", engine.warnings());
}

#[test]
fn a_context_that_does_not_fit_beside_the_weights_is_refused_when_it_is_opened() {
    let n_layer = n_layer(TIED);
    let engine = with_memory(needed(TIED, n_layer)).load(TIED, GpuLayers::Auto);
    let options = ContextOptions { n_ctx: Some(1 << 17), ..ContextOptions::default() };
    let error = engine.context(&options).map(drop).expect_err("too long");
    assert!(error.to_string().contains("keys and values on Vulkan need"), "{error}");
    assert!(error.hint().expect("a hint").contains("fewer layers"));
}

#[test]
fn the_plan_is_what_the_graph_params_and_the_placement_say() {
    let n_layer = n_layer(UNTIED);
    let text = |n: usize| {
        let engine = fake().load(UNTIED, GpuLayers::Count(n));
        let params = context(&engine, KvFormat::F16).params(1, 1, GraphType::Decode).cparams;
        assert_eq!((params.gpu, params.gpu_layers), (n > 0, n.min(n_layer)));
        let has_device = params.backends & BackendId::VULKAN.bit() != 0;
        assert_eq!(has_device, n > 0);
        engine.placement().to_string()
    };
    assert_eq!(text(0), "CPU");
    assert_eq!(text(1), format!("Vulkan 1/{n_layer} layers"));
    assert_eq!(text(n_layer), "Vulkan");
    assert_eq!(text(99), "Vulkan", "all, if there are fewer");
}

fn broken() -> Result<Arc<dyn Device>, BackendError> {
    Err(BackendError::Driver { backend: "Metal", what: "opening".into(), reason: "no luck".into() })
}

fn working() -> Result<Arc<dyn Device>, BackendError> {
    Ok(fake())
}

/// A registry whose most preferred device cannot be opened.
fn options(is_named: bool, fence: &[BackendId]) -> EngineOptions {
    let built = |known, open| BuiltBackend {
        known,
        is_likely: || true,
        availability: || Availability::Available,
        open,
    };
    let registry = Registry::new(vec![
        built(KnownBackend::CPU, None),
        built(KnownBackend::VULKAN, Some(working as OpenDevice)),
        built(KnownBackend::METAL, Some(broken as OpenDevice)),
    ]);
    let fence = fence.iter().fold(0, |bits, id| bits | id.bit());
    let device = DeviceOptions { registry, fence, is_named, ..DeviceOptions::default() };
    EngineOptions { device, ..EngineOptions::default() }
}

#[test]
fn a_device_that_cannot_be_opened_is_an_error_if_named_and_passed_over_if_not() {
    const ALL: [BackendId; 3] = [BackendId::CPU, BackendId::METAL, BackendId::VULKAN];
    let error = load(TIED, &options(true, &ALL)).map(drop).expect_err("Metal is named");
    assert_eq!(error.to_string(), "Metal: opening a device: backend Metal: opening: no luck");
    let engine = load(TIED, &options(false, &ALL)).expect("Vulkan works");
    assert_eq!(engine.placement().to_string(), "Vulkan");
    assert!(engine.warnings().iter().any(|warning| warning.starts_with("Metal is not used")));
    let engine = load(TIED, &options(true, &[BackendId::VULKAN])).expect("the fence leaves Metal out");
    assert_eq!(engine.placement().to_string(), "Vulkan");
    let engine = load(TIED, &options(false, &[BackendId::CPU])).expect("no device is allowed");
    assert_eq!((engine.placement().to_string().as_str(), engine.warnings().len()), ("CPU", 0));
}

#[test]
fn layers_asked_for_without_any_device_are_a_warning() {
    let mut options = options(false, &[BackendId::CPU]);
    options.device.gpu_layers = GpuLayers::Count(3);
    let engine = load(TIED, &options).expect("the CPU does it");
    assert!(
        engine
            .warnings()
            .iter()
            .any(|warning| warning.starts_with("the CPU runs all layers, as there is no device"))
    );
}

#[test]
fn nodes_of_an_op_that_the_device_lacks_go_to_the_cpu_and_the_logits_stay() {
    let alone = all_logits(&mut context(&tiny(TIED), KvFormat::F16), &TOKENS);
    for lacks in [OpKind::Attn, OpKind::RmsNorm, OpKind::GetRows] {
        let device = FakeDevice::new(Traits { lacks: Some(lacks), ..Traits::default() });
        let engine = device.load(TIED, GpuLayers::Auto);
        assert_eq!(all_logits(&mut context(&engine, KvFormat::F16), &TOKENS), alone, "{lacks:?}");
    }
}
