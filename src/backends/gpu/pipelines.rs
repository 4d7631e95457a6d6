//! Shaders and pipelines: the text of a kernel put together, compiled once per specialisation, and kept.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use super::blocks;
use super::device::{Gpu, IMMEDIATES_BYTES};
use crate::graph::BackendError;
use crate::tensor::DType;
use crate::threads::lock;

const LANES_TREE: &str = include_str!("wgsl/lanes_tree.wgsl");
const LANES_SUBGROUP: &str = include_str!("wgsl/lanes_subgroup.wgsl");

/// How a kernel reaches a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// It only reads.
    Read,
    /// It writes, and may read what it wrote.
    Write,
}

/// A buffer that a kernel uses: name, access, element type in WGSL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) name: &'static str,
    pub(super) access: Access,
    pub(super) element: &'static str,
}

/// A buffer that a kernel reads.
pub(super) const fn read(name: &'static str, element: &'static str) -> Binding {
    Binding { name, access: Access::Read, element }
}

/// A buffer that a kernel writes.
pub(super) const fn write(name: &'static str, element: &'static str) -> Binding {
    Binding { name, access: Access::Write, element }
}

/// A kernel's source. Its entry point is `main`.
///
/// The text is headed by what a launcher chooses: `constants`, each `NAME: type`, as WGSL constants;
/// `bindings`; and `params`, fields of the immediates `p`, after a field `NAME_at` for each binding, the
/// element at which it starts. For a binding `x` of f32 there is also a function `x_load(i)`. If the result
/// takes the place of the source called `x`, only the result is bound and `x_load` reads it.
#[derive(Debug)]
pub(super) struct Shader {
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    /// Texts that the source uses.
    pub(super) snippets: &'static [&'static str],
    pub(super) constants: &'static [&'static str],
    pub(super) bindings: &'static [Binding],
    pub(super) params: &'static [&'static str],
}

/// What a pipeline is a function of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PipelineKey {
    /// The shader's name.
    shader: &'static str,
    /// Bits of the constants, in their order.
    constants: Vec<u32>,
    /// Type of the blocks that `weight16` reads.
    dtype: Option<DType>,
    /// The first source and the result are one buffer.
    in_place: bool,
    /// For kernels that add up over lanes: the size of the subgroups that do it, 0 for none.
    lanes: Option<u32>,
}

/// A compiled kernel.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) layout: wgpu::BindGroupLayout,
    /// Distinguishes the layouts of bind groups.
    pub(super) id: usize,
}

/// The pipelines of a device.
#[derive(Default)]
pub(super) struct Pipelines {
    compiled: Mutex<HashMap<PipelineKey, Arc<Pipeline>>>,
}

impl Pipelines {
    /// The pipeline of `shader` with this key, compiled now if it is new.
    pub(super) fn get(
        &self,
        gpu: &Gpu,
        shader: &'static Shader,
        key: &PipelineKey,
    ) -> Result<Arc<Pipeline>, BackendError> {
        let mut compiled = lock(&self.compiled);
        if let Some(pipeline) = compiled.get(key) {
            return Ok(Arc::clone(pipeline));
        }
        let pipeline = Arc::new(compile(gpu, shader, key, compiled.len())?);
        compiled.insert(key.clone(), Arc::clone(&pipeline));
        Ok(pipeline)
    }
}

impl PipelineKey {
    /// The key of `shader` with these constants.
    pub(super) fn new(shader: &'static Shader, constants: &[u32]) -> PipelineKey {
        PipelineKey {
            shader: shader.name,
            constants: constants.to_vec(),
            dtype: None,
            in_place: false,
            lanes: None,
        }
    }

    /// The key for weights of this type.
    pub(super) fn reading(self, dtype: DType) -> PipelineKey {
        PipelineKey { dtype: Some(dtype), ..self }
    }

    /// The key of a kernel that adds up over groups of 32 lanes, with subgroups of this size if they divide a
    /// group.
    pub(super) fn with_lanes(self, subgroup_size: u32) -> PipelineKey {
        let divides = subgroup_size > 1 && 32 % subgroup_size == 0;
        PipelineKey { lanes: Some(if divides { subgroup_size } else { 0 }), ..self }
    }

    /// Whether the first source and the result are one buffer.
    pub(super) fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// The key for a result that does, or does not, take the place of the first source.
    pub(super) fn in_place(self, in_place: bool) -> PipelineKey {
        PipelineKey { in_place, ..self }
    }
}

impl Shader {
    /// The bindings in use: all, or all but the first source.
    pub(super) fn bound(&self, in_place: bool) -> &'static [Binding] {
        if in_place { &self.bindings[1..] } else { self.bindings }
    }

    /// The whole text for `key`.
    pub(super) fn text(&self, key: &PipelineKey) -> String {
        let mut text = String::new();
        for (constant, bits) in self.constants.iter().zip(&key.constants) {
            let value = match constant.ends_with("f32") {
                true => format!("{:?}f", f32::from_bits(*bits)),
                false => format!("{bits}u"),
            };
            let _ = writeln!(text, "const {constant} = {value};");
        }
        text += "struct Params {\n";
        for binding in self.bindings {
            let _ = writeln!(text, "    {}_at: u32,", binding.name);
        }
        for param in self.params {
            let _ = writeln!(text, "    {param}: u32,");
        }
        text += "}\nvar<immediate> p: Params;\n";
        for (index, binding) in self.bound(key.in_place).iter().enumerate() {
            let Binding { name, access, element } = binding;
            let access = match access {
                Access::Read => "read",
                Access::Write => "read_write",
            };
            let _ = writeln!(
                text,
                "@group(0) @binding({index}) var<storage, {access}> {name}: array<{element}>;"
            );
        }
        for binding in self.bindings.iter().filter(|binding| binding.element == "f32") {
            let name = binding.name;
            let from = if key.in_place && name == self.bindings[0].name { self.result() } else { name };
            let _ = writeln!(text, "fn {name}_load(i: u32) -> f32 {{ return {from}[p.{from}_at + i]; }}");
        }
        if let Some(dtype) = key.dtype {
            text += blocks::WORDS;
            text += blocks::source(dtype);
        }
        self.snippets.iter().for_each(|snippet| text += snippet);
        text += self.source;
        match key.lanes {
            Some(0) => text.replace("LANE_ARGUMENTS", "").replace("LANE_INDEX", "local") + LANES_TREE,
            Some(size) => {
                let _ = writeln!(text, "const SUBGROUP = {size}u;");
                let arguments = ", @builtin(subgroup_id) subgroup: u32, \
                                 @builtin(subgroup_invocation_id) in_subgroup: u32";
                let text = text.replace("LANE_ARGUMENTS", arguments);
                text.replace("LANE_INDEX", "subgroup * SUBGROUP + in_subgroup") + LANES_SUBGROUP
            }
            None => text,
        }
    }

    /// The name of the first binding that is written.
    fn result(&self) -> &'static str {
        let written = self.bindings.iter().find(|binding| binding.access == Access::Write);
        written.map_or("", |binding| binding.name)
    }
}

fn compile(
    gpu: &Gpu,
    shader: &'static Shader,
    key: &PipelineKey,
    id: usize,
) -> Result<Pipeline, BackendError> {
    let what = format!("compiling kernel {}", shader.name);
    gpu.check(&what)?;
    let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
    let descriptor = wgpu::ShaderModuleDescriptor {
        label: Some(shader.name),
        source: wgpu::ShaderSource::Wgsl(shader.text(key).into()),
    };
    // SAFETY: the kernels index only within what their launchers checked, have no endless loop, and divide by
    // constants that are not zero.
    let module = unsafe {
        gpu.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
    };
    let entries: Vec<_> = shader.bound(key.in_place).iter().enumerate().map(layout_entry).collect();
    let layout = gpu.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some(shader.name),
        entries: &entries,
    });
    let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: Some(shader.name),
        bind_group_layouts: &[Some(&layout)],
        immediate_size: IMMEDIATES_BYTES,
    });
    let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(shader.name),
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions {
            // Every kernel writes its workgroup memory before it reads it.
            zero_initialize_workgroup_memory: false,
            ..wgpu::PipelineCompilationOptions::default()
        },
        cache: None,
    });
    match pollster::block_on(scope.pop()) {
        Some(error) => Err(gpu.driver_error(&what, &error)),
        None => gpu.check(&what).map(|()| Pipeline { pipeline, layout, id }),
    }
}

fn layout_entry((index, binding): (usize, &Binding)) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding: index as u32,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only: binding.access == Access::Read },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    }
}
