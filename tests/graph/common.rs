//! A small decoder with every op that a real one has, and sets of null backends.

use std::sync::Arc;

use minfer::backends::null::{Claims, Counters, NullBackend};
use minfer::graph::*;
use minfer::tensor::{DType, Shape};

pub(crate) const N_EMBD: usize = 64;
pub(crate) const N_FF: usize = 96;
pub(crate) const HEAD_DIM: usize = 16;
pub(crate) const N_HEAD: usize = 4;
pub(crate) const N_HEAD_KV: usize = 2;
pub(crate) const N_VOCAB: usize = 160;

pub(crate) const DEVICE: BackendId = BackendId::VULKAN;

pub(crate) fn params(n_tokens: usize, n_out: usize) -> GraphParams {
    GraphParams {
        n_tokens,
        n_out,
        gtype: if n_tokens == 1 { GraphType::Decode } else { GraphType::Prefill },
        cparams: CParams {
            n_ctx: 64,
            n_seq_max: 2,
            flash_attn: true,
            gpu: false,
            fuse_qkv: true,
            fuse_ffn: true,
            gpu_layers: 0,
            kv_format: KvFormat::F16,
            backends: u32::MAX,
        },
        weights_version: 1,
    }
}

pub(crate) fn weight(name: &str, shape: Shape) -> WeightRef {
    WeightRef { name: Arc::from(name), shape, dtype: DType::F32 }
}

pub(crate) fn matrix(name: &str, n_in: usize, n_out: usize) -> WeightRef {
    weight(name, Shape::d2(n_in, n_out))
}

pub(crate) fn vector(name: &str, n: usize) -> WeightRef {
    weight(name, Shape::d1(n))
}

/// Data for every input of the decoder.
pub(crate) struct StepData {
    tokens: Vec<i32>,
    pages: Vec<i32>,
    tail: Vec<i32>,
}

impl StepData {
    pub(crate) fn new(params: &GraphParams) -> StepData {
        let n_pages = params.cparams.n_ctx / PAGE_TOKENS * params.cparams.n_seq_max;
        StepData { tokens: vec![0; params.n_tokens], pages: vec![0; n_pages], tail: vec![0; params.n_out] }
    }

    pub(crate) fn inputs(&self) -> Inputs<'_> {
        Inputs {
            token_ids: &self.tokens,
            positions: &self.tokens,
            cells: &self.tokens,
            seq_ids: &self.tokens,
            kv_pages: &self.pages,
            tail_ids: &self.tail,
        }
    }
}

/// A decoder of `n_layer` blocks; the tail is reduced in the last block.
pub(crate) fn decoder(params: GraphParams, n_layer: u32) -> Graph {
    let mut g = GraphBuilder::new(params);
    let ids = g.input(InputKind::TokenIds);
    let mut x = g.node("embd", GetRows, &[ids], &[&matrix("token_embd.weight", N_EMBD, N_VOCAB)]);
    for layer in 0..n_layer {
        g.set_layer(Some(layer));
        x = block(&mut g, layer, x, layer + 1 == n_layer);
    }
    g.set_layer(None);
    let normed = g.node("output_norm", RmsNorm { eps: 1e-6 }, &[x], &[&vector("output_norm.weight", N_EMBD)]);
    let head = matrix("output.weight", N_EMBD, N_VOCAB);
    let logits = g.node("logits", product(), &[normed], &[&head]);
    g.output(logits);
    g.finish().unwrap()
}

fn block(g: &mut GraphBuilder, layer: u32, x: NodeId, is_last: bool) -> NodeId {
    let name = |part: &str| format!("blk.{layer}.{part}");
    let norm = vector(&name("attn_norm.weight"), N_EMBD);
    let normed = g.node(name("attn_norm"), RmsNorm { eps: 1e-6 }, &[x], &[&norm]);
    let attn = attention(g, layer, normed);
    let wo = matrix(&name("attn_output.weight"), HEAD_DIM * N_HEAD, N_EMBD);
    let mut attn_out = g.node(name("attn_out"), product(), &[attn], &[&wo]);
    let mut residual = x;
    if is_last && g.params().n_out != g.params().n_tokens {
        let tail = g.input(InputKind::TailIds);
        attn_out = g.node("tail_attn", GetRows, &[attn_out, tail], &[]);
        residual = g.node("tail_residual", GetRows, &[residual, tail], &[]);
    }
    let x = g.node(name("attn_residual"), Add, &[attn_out, residual], &[]);
    let norm = vector(&name("ffn_norm.weight"), N_EMBD);
    let normed = g.node(name("ffn_norm"), RmsNorm { eps: 1e-6 }, &[x], &[&norm]);
    let down = ffn(g, layer, normed);
    g.node(name("ffn_residual"), Add, &[down, x], &[])
}

fn attention(g: &mut GraphBuilder, layer: u32, normed: NodeId) -> NodeId {
    let name = |part: &str| format!("blk.{layer}.{part}");
    let (n_q, n_kv) = (HEAD_DIM * N_HEAD, HEAD_DIM * N_HEAD_KV);
    let mut project = |part: &str, n_out: usize| {
        let (w, b) = (name(&format!("attn_{part}.weight")), name(&format!("attn_{part}.bias")));
        let weights = [&matrix(&w, N_EMBD, n_out), &vector(&b, n_out)];
        let op = MatMul { bias: true, activations: ActivationPrecision::Bits16 };
        g.node(name(&format!("attn_{part}")), op, &[normed], &weights)
    };
    let (q, k, v) = (project("q", n_q), project("k", n_kv), project("v", n_kv));
    let positions = g.input(InputKind::Positions);
    let q = g.node(name("q_rope"), rope(), &[q, positions], &[]);
    let k = g.node(name("k_rope"), rope(), &[k, positions], &[]);
    let cells = g.input(InputKind::Cells);
    let store = kv_store(g.params(), layer);
    let stored = g.node(name("kv_store"), store, &[k, v, cells], &[]);
    let kv = g.node(name("kv"), KvcacheLoad { layer }, &[stored], &[]);
    let (seq_ids, pages) = (g.input(InputKind::SeqIds), g.input(InputKind::KvPages));
    g.node(name("attn"), attn(), &[q, kv, positions, seq_ids, pages], &[])
}

fn ffn(g: &mut GraphBuilder, layer: u32, normed: NodeId) -> NodeId {
    let name = |part: &str| format!("blk.{layer}.{part}");
    let gate = matrix(&name("ffn_gate.weight"), N_EMBD, N_FF);
    let up = matrix(&name("ffn_up.weight"), N_EMBD, N_FF);
    let down = matrix(&name("ffn_down.weight"), N_FF, N_EMBD);
    let gate = g.node(name("ffn_gate"), product(), &[normed], &[&gate]);
    let up = g.node(name("ffn_up"), product(), &[normed], &[&up]);
    let act = g.node(name("ffn_act"), Silu, &[gate], &[]);
    let gated = g.node(name("ffn_gated"), Mul, &[act, up], &[]);
    g.node(name("ffn_down"), product(), &[gated], &[&down])
}

pub(crate) fn product() -> MatMul {
    MatMul { bias: false, activations: ActivationPrecision::Bits8 }
}

pub(crate) fn rope() -> RoPE {
    let style = RopeStyle::NonInterleaved;
    RoPE { style, head_dim: HEAD_DIM, n_rot: HEAD_DIM, freq_base: 1e6, freq_scale: 1.0, yarn: None }
}

pub(crate) fn attn() -> Attn {
    let scale = 0.25;
    Attn {
        n_head: N_HEAD,
        n_head_kv: N_HEAD_KV,
        head_dim: HEAD_DIM,
        head_dim_v: HEAD_DIM,
        scale,
        window: None,
    }
}

pub(crate) fn kv_store(params: &GraphParams, layer: u32) -> KvcacheStore {
    let row = HEAD_DIM * N_HEAD_KV;
    let kv = KvShape {
        n_cells: params.cparams.n_ctx,
        k_row_elems: row,
        v_row_elems: row,
        format: params.cparams.kv_format,
    };
    KvcacheStore { layer, kv }
}

/// Null backends under their ids, with the counters of each.
pub(crate) fn set_of<const N: usize>(backends: [(BackendId, Claims); N]) -> (BackendSet, [Arc<Counters>; N]) {
    let mut set = BackendSet::new();
    let counters = backends.map(|(id, claims)| {
        let backend = NullBackend::new(claims);
        let counters = backend.counters();
        set.insert(id, Box::new(backend));
        counters
    });
    (set, counters)
}

pub(crate) fn cpu_set() -> (BackendSet, Arc<Counters>) {
    let (set, [counters]) = set_of([(BackendId::CPU, Claims::like_cpu("cpu"))]);
    (set, counters)
}

/// A processor and a device with these claims.
pub(crate) fn device_set(device: Claims) -> (BackendSet, [Arc<Counters>; 2]) {
    set_of([(BackendId::CPU, Claims::like_cpu("cpu")), (DEVICE, device)])
}

/// Prefers the device for blocks `0..gpu_layers` of `n_layer`.
pub(crate) fn policy(gpu_layers: usize, n_layer: usize) -> Policy {
    Policy { order: vec![DEVICE, BackendId::CPU], fence: u32::MAX, gpu_layers, n_layer }
}

pub(crate) fn by_name<'a>(graph: &'a Graph, name: &str) -> &'a Node {
    graph.nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("no node {name}"))
}
