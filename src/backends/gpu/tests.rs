//! Kernel texts as other compilers see them. That they compute the right thing is tested on a device.

use std::collections::BTreeSet;

use naga::back::msl;
use naga::valid::{Capabilities, ValidationFlags, Validator};

use super::ops::{
    attn, batch_mat_mul, elementwise, epilogue, fused_ffn, get_rows, kvcache_store, permute, product,
    rms_norm, rope, softmax,
};
use super::pipelines::{Access, PipelineKey, Shader};
use crate::tensor::DType;

/// Every kernel with constants that it could have in a model.
fn kernels() -> Vec<(&'static Shader, Vec<u32>)> {
    let half = 0.5f32.to_bits();
    let product = vec![256, 144, 1, 1, 1];
    let few = vec![256, 144, 1, 1, 1, 4, 0, 0, half];
    let gated = vec![256, 144, 0, 0, 0, 1, 1, 1, half];
    let epilogue = vec![128, 64, 64, 32, 12, 1, 1, 1, half];
    let attention = vec![6, 2, 3, 20, 12, 45, half, 3, 32];
    let blocks = vec![6, 2, 3, 96, 64, u32::MAX, half, 3, 32];
    vec![
        (&elementwise::ADD, vec![]),
        (&elementwise::MUL, vec![]),
        (&elementwise::SWIGLU, vec![]),
        (&elementwise::SCALE, vec![half]),
        (&elementwise::SILU, vec![half]),
        (&softmax::SHADER, vec![half]),
        (&rms_norm::SHADER, vec![896, half]),
        (&product::FEW, few),
        (&product::FEW, gated),
        (&product::MANY, product),
        (&fused_ffn::HALVES, vec![]),
        (&get_rows::OF_WEIGHT, vec![256, 144]),
        (&get_rows::OF_VALUE, vec![]),
        (&rope::SHADER, vec![64, 14, 32, 0]),
        (&kvcache_store::F32, vec![128]),
        (&kvcache_store::F16, vec![128]),
        (&kvcache_store::Q8_0, vec![128]),
        (&epilogue::F32, epilogue.clone()),
        (&epilogue::F16, epilogue.clone()),
        (&epilogue::Q8_0, epilogue),
        (&attn::FEW_F32, attention.clone()),
        (&attn::FEW_F16, attention.clone()),
        (&attn::FEW_Q8_0, blocks.clone()),
        (&attn::MANY_Q8_0, blocks),
        (&attn::MANY_F32, attention.clone()),
        (&attn::MANY_F16, attention),
        (&attn::COMBINE, vec![12]),
        (&permute::SHADER, vec![]),
        (&batch_mat_mul::SHADER, vec![]),
    ]
}

/// The texts of a kernel: in place or not, for every type of weights, with and without subgroups.
fn texts(shader: &'static Shader, constants: &[u32]) -> BTreeSet<String> {
    let key = PipelineKey::new(shader, constants);
    let mut keys = vec![key.clone()];
    // The result may take the place of the first source if both are of f32.
    let written = shader.bindings.iter().find(|binding| binding.access == Access::Write);
    if [shader.bindings.first(), written].into_iter().flatten().all(|binding| binding.element == "f32") {
        keys.push(key.in_place(true));
    }
    let reads_weights = shader.bindings.iter().any(|binding| binding.name == "weights");
    let of_type = |key: PipelineKey| match reads_weights {
        true => DType::all().map(|dtype| key.clone().reading(dtype)).collect(),
        false => vec![key],
    };
    let with_lanes = |key: PipelineKey| match shader.source.contains("LANE_INDEX") {
        true => vec![key.clone().with_lanes(0), key.with_lanes(32)],
        false => vec![key],
    };
    keys.into_iter().flat_map(of_type).flat_map(with_lanes).map(|key| shader.text(&key)).collect()
}

fn to_metal(text: &str) -> String {
    let module =
        naga::front::wgsl::parse_str(text).unwrap_or_else(|e| panic!("{}\n{text}", e.emit_to_string(text)));
    let capabilities =
        Capabilities::IMMEDIATES | Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let info = Validator::new(ValidationFlags::all(), capabilities).validate(&module);
    let info = info.unwrap_or_else(|error| panic!("{}\n{text}", error.emit_to_string(text)));
    let options = msl::Options { lang_version: (2, 4), ..msl::Options::default() };
    let (metal, info) = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    for name in info.entry_point_names {
        name.unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
    metal
}

#[test]
fn every_kernel_is_valid_and_can_be_said_in_metal_s_language() {
    for (shader, constants) in kernels() {
        assert_eq!(constants.len(), shader.constants.len(), "{}", shader.name);
        for text in texts(shader, &constants) {
            assert!(to_metal(&text).contains("kernel void"), "{}", shader.name);
        }
    }
}

#[test]
fn every_kernel_of_the_folder_is_in_the_list() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backends/gpu/ops");
    let sources: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the sources are here")
        .filter_map(|entry| entry.expect("it can be read").file_name().into_string().ok())
        .filter(|name| name.ends_with(".wgsl"))
        .map(|name| {
            std::fs::read_to_string(format!("{}/src/backends/gpu/ops/{name}", env!("CARGO_MANIFEST_DIR")))
        })
        .map(|source| source.expect("it can be read"))
        .collect();
    let listed: BTreeSet<String> = kernels().iter().map(|(shader, _)| shader.source.to_owned()).collect();
    assert_eq!(listed, sources);
}
