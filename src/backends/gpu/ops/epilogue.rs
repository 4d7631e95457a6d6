//! QkvBiasRopeStore and FusedQkvNorm: all that follows a fused product of Q, K and V, in one kernel.

use super::kvcache_store::unit_elems;
use super::rope::{self, interleaved, rotations};
use super::{
    BackendError, Binding, Bound, Dispatch, GRID, HALVES, Launch, Op, PipelineKey, Q8_0 as BLOCKS, RMS,
    ROTATION, SUM, Shader, read, write,
};
use crate::graph::{KvFormat, KvcacheStore, RoPE};
use crate::tensor::DType;

const SOURCE: &str = include_str!("epilogue.wgsl");
const F32_UNITS: &str = include_str!("../wgsl/put_f32.wgsl");
const F16_UNITS: &str = include_str!("../wgsl/put_f16.wgsl");
const Q8_0_UNITS: &str = include_str!("../wgsl/put_q8_0.wgsl");

const BINDINGS: &[Binding] = &[
    read("qkv", "f32"),
    read("positions", "i32"),
    read("cells", "i32"),
    read("rotations", "vec2<f32>"),
    read("first_q", "f32"),
    read("first_k", "f32"),
    read("first_v", "f32"),
    write("keys", "u32"),
    write("values", "u32"),
    write("out", "f32"),
];

const fn shader(name: &'static str, snippets: &'static [&'static str]) -> Shader {
    const CONSTANTS: &[&str] = &[
        "N_Q: u32",
        "K_ELEMS: u32",
        "V_ELEMS: u32",
        "HEAD_DIM: u32",
        "N_PAIRS: u32",
        "INTERLEAVED: u32",
        "BIAS: u32",
        "NORM: u32",
        "EPS: f32",
    ];
    Shader { name, source: SOURCE, snippets, constants: CONSTANTS, bindings: BINDINGS, params: &["n_cells"] }
}

pub(in crate::backends::gpu) static F32: Shader =
    shader("epilogue_f32", &[GRID, RMS, SUM, ROTATION, F32_UNITS]);
pub(in crate::backends::gpu) static F16: Shader =
    shader("epilogue_f16", &[GRID, RMS, SUM, ROTATION, HALVES, F16_UNITS]);
pub(in crate::backends::gpu) static Q8_0: Shader =
    shader("epilogue_q8_0", &[GRID, RMS, SUM, ROTATION, HALVES, BLOCKS, Q8_0_UNITS]);

/// Invocations of a workgroup, each of which stores one unit of V.
const WORKGROUP: usize = 128;

/// What the two ops have in common.
struct Epilogue<'a> {
    n_q: usize,
    rope: &'a RoPE,
    store: &'a KvcacheStore,
    /// Biases of Q, K and V.
    bias: bool,
    /// Norms of the heads of Q and K.
    norm_eps: Option<f32>,
}

impl<'a> Epilogue<'a> {
    fn of(op: &'a Op) -> Option<Epilogue<'a>> {
        match op {
            Op::QkvBiasRopeStore(op) => Some(Epilogue {
                n_q: op.n_q,
                rope: &op.rope,
                store: &op.store,
                bias: op.bias,
                norm_eps: None,
            }),
            Op::FusedQkvNorm(op) => {
                let norm_eps = Some(op.norm.eps);
                Some(Epilogue { n_q: op.n_q, rope: &op.rope, store: &op.store, bias: false, norm_eps })
            }
            _ => None,
        }
    }
}

/// Heads and rows are whole units of the format, and rows are whole heads.
pub(in crate::backends::gpu) fn accepts(op: &Op, dtype: DType) -> bool {
    Epilogue::of(op).is_some_and(|epilogue| {
        let (unit, head_dim) = (unit_elems(epilogue.store.kv.format), epilogue.rope.head_dim);
        let whole_heads =
            [epilogue.n_q, epilogue.store.kv.k_row_elems].iter().all(|n| n.is_multiple_of(head_dim));
        let whole_units = [head_dim, epilogue.store.kv.v_row_elems].iter().all(|n| n.is_multiple_of(unit));
        dtype == DType::F32 && whole_heads && whole_units
    })
}

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    let op = &launch.call.node.op;
    let epilogue = Epilogue::of(op).ok_or_else(|| launch.broken("op", "an epilogue", op.name()))?;
    launch.expect_apart(0)?;
    let kv = epilogue.store.kv;
    let layer = launch.layer(epilogue.store.layer, (kv.k_row_elems, kv.v_row_elems))?;
    let shape = layer.shape;
    let n_firsts = match (epilogue.bias, epilogue.norm_eps) {
        (true, _) => 3,
        (false, Some(_)) => 2,
        (false, None) => 0,
    };
    let table = rotations(launch, epilogue.rope, n_firsts)?;
    let firsts = (0..n_firsts).map(|index| launch.vector(index)).collect::<Result<Vec<_>, _>>()?;
    let qkv = launch.src(0)?;
    // A kernel that does not use one of these binds the product in its place.
    let first = |index: usize| firsts.get(index).map_or(qkv, |first| first.bound());
    let buffers = [
        qkv,
        launch.src(1)?,
        launch.src(2)?,
        rope::bound(&table),
        first(0),
        first(1),
        first(2),
        Bound::whole(&layer.keys),
        Bound::whole(&layer.values),
        launch.out()?,
    ];
    let sizes =
        [epilogue.n_q, shape.k_row_elems, shape.v_row_elems, epilogue.rope.head_dim, epilogue.rope.n_rot / 2];
    let flags = [
        interleaved(epilogue.rope),
        u32::from(epilogue.bias),
        u32::from(epilogue.norm_eps.is_some()),
        epilogue.norm_eps.unwrap_or(0.0).to_bits(),
    ];
    let constants: Vec<u32> = sizes.iter().map(|n| *n as u32).chain(flags).collect();
    let shader = match shape.format {
        KvFormat::F32 => &F32,
        KvFormat::F16 => &F16,
        KvFormat::Q8_0 => &Q8_0,
    };
    let n_heads = (epilogue.n_q + shape.k_row_elems) / epilogue.rope.head_dim;
    let n_units = shape.v_row_elems / unit_elems(shape.format);
    let workgroups = launch.grid(n_heads + n_units.div_ceil(WORKGROUP))?;
    launch.dispatch(&Dispatch {
        shader,
        key: PipelineKey::new(shader, &constants),
        buffers: &buffers,
        params: &[shape.n_cells as u32],
        workgroups,
        weight_bytes: firsts.iter().map(|first| first.row_bytes()).sum(),
    })
}
