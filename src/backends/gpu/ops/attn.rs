//! Attn: attention over paged keys and values.
//!
//! Positions, sequences and pages are data that the host does not see, so there is no error for them: a token
//! of a sequence that does not exist gets zeros, a page that no region has is seen by nobody, and a position
//! beyond the page table counts as the last one in it.

use super::{BackendError, Binding, Bound, Dispatch, GRID, Launch, Op, PipelineKey, Shader, read, write};
use crate::backends::gpu::kv::KvLayer;
use crate::graph::{Attn, KvFormat, PAGE_TOKENS, Slot};
use crate::tensor::DType;

/// Most tokens that the kernel for few of them takes.
const MAX_FEW: usize = 8;
/// Tokens per workgroup of the other one.
const TILE: usize = 16;
/// Elements of a head for which the kernels' workgroup memory and invocations suffice.
const MAX_HEAD_DIM: usize = 512;
/// Positions that a workgroup of the kernel for few tokens takes at least, and most stretches of a context.
const MIN_SPAN: usize = 256;
const MAX_SPLITS: usize = 32;

/// Numbers of a partial result besides the values.
const PARTIAL_EXTRA: usize = 2;

const ATTENTION: &str = include_str!("../wgsl/attention.wgsl");
const KV_F32: &str = include_str!("../wgsl/kv_f32.wgsl");
const KV_F16: &str = include_str!("../wgsl/kv_f16.wgsl");
const KV_Q8_0: &str = include_str!("../wgsl/kv_q8_0.wgsl");

const BINDINGS: &[Binding] = &[
    read("q", "f32"),
    read("keys", "u32"),
    read("values", "u32"),
    read("positions", "i32"),
    read("seq_ids", "i32"),
    read("kv_pages", "i32"),
    write("out", "f32"),
];

const CONSTANTS: &[&str] = &[
    "N_HEAD: u32",
    "N_HEAD_KV: u32",
    "GROUP: u32",
    "HEAD_DIM: u32",
    "HEAD_DIM_V: u32",
    "WINDOW: u32",
    "SCALE: f32",
    "HEADS: u32",
    "LANES: u32",
];

const fn shader(name: &'static str, source: &'static str, snippets: &'static [&'static str]) -> Shader {
    const PARAMS: &[&str] = &["n_tokens", "n_seq", "n_pages_max", "n_pages", "n_splits", "span"];
    Shader { name, source, snippets, constants: CONSTANTS, bindings: BINDINGS, params: PARAMS }
}

const FEW: &str = include_str!("attn_few.wgsl");
const MANY: &str = include_str!("attn_many.wgsl");

pub(in crate::backends::gpu) static FEW_F32: Shader = shader("attn_few_f32", FEW, &[GRID, KV_F32, ATTENTION]);
pub(in crate::backends::gpu) static FEW_F16: Shader = shader("attn_few_f16", FEW, &[GRID, KV_F16, ATTENTION]);
pub(in crate::backends::gpu) static FEW_Q8_0: Shader =
    shader("attn_few_q8_0", FEW, &[GRID, KV_Q8_0, ATTENTION]);
pub(in crate::backends::gpu) static MANY_F32: Shader =
    shader("attn_many_f32", MANY, &[GRID, KV_F32, ATTENTION]);
pub(in crate::backends::gpu) static MANY_F16: Shader =
    shader("attn_many_f16", MANY, &[GRID, KV_F16, ATTENTION]);
pub(in crate::backends::gpu) static MANY_Q8_0: Shader =
    shader("attn_many_q8_0", MANY, &[GRID, KV_Q8_0, ATTENTION]);

pub(in crate::backends::gpu) static COMBINE: Shader = Shader {
    name: "attn_combine",
    source: include_str!("attn_combine.wgsl"),
    snippets: &[GRID],
    constants: &["HEAD_DIM_V: u32"],
    bindings: &[read("parts", "f32"), write("out", "f32")],
    params: &["n_lines", "n_splits"],
};

/// Tokens see something, and heads fit the kernels.
pub(in crate::backends::gpu) fn accepts(op: &Op, dtype: DType) -> bool {
    let Op::Attn(op) = op else { return false };
    let fits = |head_dim: usize| (1..=MAX_HEAD_DIM).contains(&head_dim);
    dtype == DType::F32 && op.window != Some(0) && fits(op.head_dim) && fits(op.head_dim_v)
}

/// What both kernels are launched with.
struct Attention<'a> {
    op: &'a Attn,
    format: KvFormat,
    n_tokens: usize,
    /// Positions that the page table has room for.
    n_positions: usize,
    /// All sources in the order of the bindings.
    srcs: [Bound<'a>; 6],
    /// Sequences, pages per sequence, pages in the regions.
    params: [u32; 3],
}

pub(in crate::backends::gpu) fn launch(launch: &mut Launch<'_>) -> Result<(), BackendError> {
    launch.expect_apart(0)?;
    let attention = Attention::of(launch)?;
    match attention.n_tokens <= MAX_FEW {
        true => few(launch, &attention),
        false => many(launch, &attention),
    }
}

impl<'a> Attention<'a> {
    fn of(launch: &Launch<'a>) -> Result<Attention<'a>, BackendError> {
        let op = payload!(launch, Attn);
        let layer = regions(launch, op)?;
        let [n_pages_max, n_seq, ..] = launch.call.srcs[4].shape.0;
        if n_pages_max == 0 || n_pages_max > u32::MAX as usize / PAGE_TOKENS {
            return Err(launch.broken("pages of a sequence", "1 to 2^27", n_pages_max));
        }
        let (keys, values) = (Bound::whole(&layer.keys), Bound::whole(&layer.values));
        let srcs = [launch.src(0)?, keys, values, launch.src(2)?, launch.src(3)?, launch.src(4)?];
        let n_pages = layer.shape.n_cells / PAGE_TOKENS;
        Ok(Attention {
            op,
            format: layer.shape.format,
            n_tokens: launch.call.out.shape.0[1],
            n_positions: n_pages_max * PAGE_TOKENS,
            srcs,
            params: [n_seq, n_pages_max, n_pages].map(|n| n as u32),
        })
    }

    /// Constants, the last two for up to `heads` heads per workgroup.
    fn key(&self, shader: &'static Shader, heads: usize) -> PipelineKey {
        let Attn { n_head, n_head_kv, head_dim, head_dim_v, scale, window } = *self.op;
        let [n_head_, n_head_kv_, group, head_dim, head_dim_v, heads_, lanes] = [
            n_head,
            n_head_kv,
            n_head / n_head_kv,
            head_dim,
            head_dim_v,
            heads,
            128 / heads.next_power_of_two(),
        ]
        .map(|n| n as u32);
        let window = window.and_then(|window| u32::try_from(window).ok()).unwrap_or(u32::MAX);
        let scale = scale.to_bits();
        let constants = [n_head_, n_head_kv_, group, head_dim, head_dim_v, window, scale, heads_, lanes];
        PipelineKey::new(shader, &constants)
    }

    fn dispatch(
        &self,
        launch: &mut Launch<'_>,
        (shader, key): (&'static Shader, PipelineKey),
        out: Bound<'_>,
        (n_splits, span): (usize, usize),
        n_workgroups: usize,
    ) -> Result<(), BackendError> {
        let [q, keys, values, positions, seq_ids, kv_pages] = self.srcs;
        let buffers = [q, keys, values, positions, seq_ids, kv_pages, out];
        let [n_seq, n_pages_max, n_pages] = self.params;
        let params = [self.n_tokens as u32, n_seq, n_pages_max, n_pages, n_splits as u32, span as u32];
        let workgroups = launch.grid(n_workgroups)?;
        launch.dispatch(&Dispatch {
            shader,
            key,
            buffers: &buffers,
            params: &params,
            workgroups,
            weight_bytes: 0,
        })
    }
}

/// The regions of source 1, whose rows have the length that the heads take.
fn regions<'a>(launch: &Launch<'a>, op: &Attn) -> Result<&'a KvLayer, BackendError> {
    let Slot::Kv { layer } = launch.call.srcs[1].slot else {
        return Err(launch.broken("source 1", "the KV regions of a layer", "a buffer"));
    };
    launch.layer(layer, (op.n_head_kv * op.head_dim, op.n_head_kv * op.head_dim_v))
}

/// Stretches of a context and positions of each; a function of the context's length alone.
fn splits(n_positions: usize) -> (usize, usize) {
    let span = n_positions.div_ceil(MAX_SPLITS).next_multiple_of(MIN_SPAN);
    (n_positions.div_ceil(span), span)
}

/// Heads that share a workgroup: those of a KV head, in equal shares that fit the workgroup's memory.
fn heads_at_once(op: &Attn) -> usize {
    let group = op.n_head / op.n_head_kv;
    let most = if op.head_dim <= MAX_HEAD_DIM / 2 { 8 } else { 4 };
    group.div_ceil(group.div_ceil(most))
}

fn few(launch: &mut Launch<'_>, attention: &Attention<'_>) -> Result<(), BackendError> {
    let op = attention.op;
    let shader = match attention.format {
        KvFormat::F32 => &FEW_F32,
        KvFormat::F16 => &FEW_F16,
        KvFormat::Q8_0 => &FEW_Q8_0,
    };
    let heads = heads_at_once(op);
    let kernel = (shader, attention.key(shader, heads));
    let (n_splits, span) = splits(attention.n_positions);
    let n_chunks = (op.n_head / op.n_head_kv).div_ceil(heads);
    let n_workgroups = attention.n_tokens * op.n_head_kv * n_chunks * n_splits;
    let out = launch.out()?;
    if n_splits == 1 {
        return attention.dispatch(launch, kernel, out, (1, span), n_workgroups);
    }
    let n_lines = attention.n_tokens * op.n_head;
    let bytes = n_lines * n_splits * (op.head_dim_v + PARTIAL_EXTRA) * 4;
    let parts = launch.scratch.get(launch.gpu, bytes)?;
    let parts = Bound::whole(&parts);
    attention.dispatch(launch, kernel, parts, (n_splits, span), n_workgroups)?;
    let key = PipelineKey::new(&COMBINE, &[op.head_dim_v as u32]);
    let params = [n_lines as u32, n_splits as u32];
    launch.for_each(&COMBINE, key, &[parts, out], &params, n_lines * op.head_dim_v, 64)
}

fn many(launch: &mut Launch<'_>, attention: &Attention<'_>) -> Result<(), BackendError> {
    let shader = match attention.format {
        KvFormat::F32 => &MANY_F32,
        KvFormat::F16 => &MANY_F16,
        KvFormat::Q8_0 => &MANY_Q8_0,
    };
    let n_workgroups = attention.n_tokens.div_ceil(TILE) * attention.op.n_head;
    let out = launch.out()?;
    // How much of the context the tokens see is data; this is the most.
    let per_position = attention.op.n_head * (attention.op.head_dim + attention.op.head_dim_v);
    launch.recorder.add_macs((attention.n_tokens * attention.n_positions) as u64 * per_position as u64);
    attention.dispatch(launch, (shader, attention.key(shader, 1)), out, (1, 0), n_workgroups)
}
