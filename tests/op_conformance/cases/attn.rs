use std::collections::HashMap;
use std::sync::Arc;

use half::f16;
use minfer::graph::{
    Attn, BackendId, BackendSet, Executable, GetRows, Graph, GraphBuilder, GraphError, InputKind, Inputs,
    KvFormat, KvShape, KvcacheLoad, KvcacheStore, PAGE_TOKENS, Policy, WeightRef,
};
use minfer::tensor::{DType, Shape, Tensor, TensorMap};

use crate::harness::{Target, expect_on_target, params, targets, values};

/// Different tokens; each has its own query, key and value.
pub(crate) const N_VOCAB: usize = 500;

/// An attention and the queries, keys and values of all tokens.
#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) op: Attn,
    pub(crate) format: KvFormat,
    /// Cells of the regions.
    pub(crate) n_ctx: usize,
    /// `[head_dim * n_head, N_VOCAB]`.
    pub(crate) q: Vec<f32>,
    /// `[head_dim * n_head_kv, N_VOCAB]`.
    pub(crate) k: Vec<f32>,
    /// `[head_dim_v * n_head_kv, N_VOCAB]`.
    pub(crate) v: Vec<f32>,
}

pub(crate) fn spec(
    n_head: usize,
    n_head_kv: usize,
    head_dim: usize,
    head_dim_v: usize,
    format: KvFormat,
    window: Option<usize>,
) -> Spec {
    let scale = 1.0 / (head_dim as f32).sqrt();
    Spec {
        op: Attn { n_head, n_head_kv, head_dim, head_dim_v, scale, window },
        format,
        n_ctx: 4096,
        q: values(head_dim * n_head * N_VOCAB, 1),
        k: values(head_dim * n_head_kv * N_VOCAB, 2),
        v: values(head_dim_v * n_head_kv * N_VOCAB, 3),
    }
}

impl Spec {
    fn rounded(&self, x: &[f32]) -> Vec<f32> {
        match self.format {
            KvFormat::F32 => x.to_vec(),
            KvFormat::F16 => x.iter().map(|x| f16::from_f32(*x).to_f32()).collect(),
            KvFormat::Q8_0 => x.chunks(32).flat_map(in_a_block).collect(),
        }
    }

    /// The key row of a token as the regions hold it.
    pub(crate) fn stored_key(&self, id: i32) -> Vec<f32> {
        let row = self.op.head_dim * self.op.n_head_kv;
        self.rounded(&self.k[id as usize * row..][..row])
    }

    /// The value row of a token as the regions hold it.
    pub(crate) fn stored_value(&self, id: i32) -> Vec<f32> {
        let row = self.op.head_dim_v * self.op.n_head_kv;
        self.rounded(&self.v[id as usize * row..][..row])
    }

    /// The definition: attention of the last token of a sequence, given the ids of all its tokens.
    pub(crate) fn reference(&self, ids: &[i32]) -> Vec<f64> {
        let Attn { n_head, n_head_kv, head_dim, head_dim_v, scale, window } = self.op;
        let first = window.map_or(0, |window| ids.len().saturating_sub(window));
        let q = &self.q[ids[ids.len() - 1] as usize * n_head * head_dim..][..n_head * head_dim];
        let seen: Vec<_> =
            ids[first..].iter().map(|id| (self.stored_key(*id), self.stored_value(*id))).collect();
        let mut out = vec![0.0; n_head * head_dim_v];
        for (head, (q, out)) in q.chunks(head_dim).zip(out.chunks_mut(head_dim_v)).enumerate() {
            let kv_head = head / (n_head / n_head_kv);
            let score = |key: &[f32]| {
                let key = &key[kv_head * head_dim..][..head_dim];
                q.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>() * f64::from(scale)
            };
            let scores: Vec<f64> = seen.iter().map(|(key, _)| score(key)).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
            for (score, (_, value)) in scores.iter().zip(&seen) {
                let weight = (score - max).exp() / sum;
                for (out, v) in out.iter_mut().zip(&value[kv_head * head_dim_v..]) {
                    *out += weight * f64::from(*v);
                }
            }
        }
        out
    }

    fn graph(&self, n_tokens: usize) -> Graph {
        let mut params = params(n_tokens, self.format);
        params.cparams.n_ctx = self.n_ctx;
        let mut b = GraphBuilder::new(params);
        b.set_layer(Some(0));
        let Attn { n_head, n_head_kv, head_dim, head_dim_v, .. } = self.op;
        let ids = b.input(InputKind::TokenIds);
        let rows = |b: &mut GraphBuilder, name: &str, row: usize| {
            let shape = Shape::d2(row, N_VOCAB);
            let table = WeightRef { name: name.into(), shape, dtype: DType::F32 };
            b.node(name, GetRows, &[ids], &[&table])
        };
        let q = rows(&mut b, "q", n_head * head_dim);
        let k = rows(&mut b, "k", n_head_kv * head_dim);
        let v = rows(&mut b, "v", n_head_kv * head_dim_v);
        let [positions, cells, seq_ids, kv_pages] =
            [InputKind::Positions, InputKind::Cells, InputKind::SeqIds, InputKind::KvPages]
                .map(|kind| b.input(kind));
        let kv = KvShape {
            n_cells: params.cparams.n_ctx,
            k_row_elems: n_head_kv * head_dim,
            v_row_elems: n_head_kv * head_dim_v,
            format: self.format,
        };
        let store = b.node("store", KvcacheStore { layer: 0, kv }, &[k, v, cells], &[]);
        let load = b.node("load", KvcacheLoad { layer: 0 }, &[store], &[]);
        let out = b.node("attn", self.op.clone(), &[q, load, positions, seq_ids, kv_pages], &[]);
        b.output(out);
        b.finish().unwrap()
    }
}

/// 32 elements as signed bytes with a common scale.
fn in_a_block(x: &[f32]) -> Vec<f32> {
    let scale =
        x.iter().fold(0.0f32, |max, x| if x.abs() > max || x.is_nan() { x.abs() } else { max }) / 127.0;
    let stored = f16::from_f32(scale).to_f32();
    let nearest = |x: &f32| if scale > 0.0 { (x / scale).round() } else { scale };
    x.iter().map(|x| nearest(x) * stored).collect()
}

/// Whether heads of these lengths can be kept in this format.
pub(crate) fn suits(format: KvFormat, head_dim: usize, head_dim_v: usize) -> bool {
    [head_dim, head_dim_v].iter().all(|n| n.is_multiple_of(format.block_elems()))
}

pub(crate) const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];

/// A token of a step: sequence, position, id.
pub(crate) type Token = (usize, usize, i32);

/// A backend with keys and values of up to four sequences, each with a fourth of the cells, whose pages lie
/// scattered.
pub(crate) struct Session {
    spec: Spec,
    set: BackendSet,
    policy: Policy,
    target: BackendId,
    executables: HashMap<usize, Executable>,
    n_pages: usize,
    n_seq: usize,
}

impl Session {
    pub(crate) fn new(spec: &Spec, target: &Target) -> Session {
        let mut weights = TensorMap::default();
        for (name, table) in [("q", &spec.q), ("k", &spec.k), ("v", &spec.v)] {
            weights.insert(name, Tensor::from_f32(Shape::d2(table.len() / N_VOCAB, N_VOCAB), table));
        }
        let cparams = params(1, spec.format).cparams;
        Session {
            spec: spec.clone(),
            set: target.backends(&Arc::new(weights)),
            policy: target.policy(),
            target: target.id,
            executables: HashMap::new(),
            n_pages: spec.n_ctx / PAGE_TOKENS,
            n_seq: cparams.n_seq_max,
        }
    }

    /// The physical page of a sequence's page: 13 and the number of pages have no common factor, so no page
    /// is used twice.
    fn page(&self, seq: usize, page: usize) -> i32 {
        ((page * self.n_seq + seq) * 13 % self.n_pages) as i32
    }

    pub(crate) fn kv_pages(&self) -> Vec<i32> {
        let mut table = vec![-1; self.n_pages * self.n_seq];
        for seq in 0..self.n_seq {
            for page in 0..self.n_pages / self.n_seq {
                table[seq * self.n_pages + page] = self.page(seq, page);
            }
        }
        table
    }

    /// Stores the tokens and returns their attention, `[head_dim_v * n_head, n_tokens]`.
    pub(crate) fn step(&mut self, tokens: &[Token]) -> Vec<f32> {
        let kv_pages = self.kv_pages();
        self.step_with(tokens, &kv_pages).unwrap()
    }

    pub(crate) fn step_with(&mut self, tokens: &[Token], kv_pages: &[i32]) -> Result<Vec<f32>, GraphError> {
        let cell = |(seq, position, _): &Token| {
            self.page(*seq, position / PAGE_TOKENS) * PAGE_TOKENS as i32 + (position % PAGE_TOKENS) as i32
        };
        let cells: Vec<i32> = tokens.iter().map(cell).collect();
        let token_ids: Vec<i32> = tokens.iter().map(|token| token.2).collect();
        let positions: Vec<i32> = tokens.iter().map(|token| token.1 as i32).collect();
        let seq_ids: Vec<i32> = tokens.iter().map(|token| token.0 as i32).collect();
        let inputs = Inputs {
            token_ids: &token_ids,
            positions: &positions,
            cells: &cells,
            seq_ids: &seq_ids,
            kv_pages,
            ..Inputs::default()
        };
        if !self.executables.contains_key(&tokens.len()) {
            let graph = self.spec.graph(tokens.len());
            let executable = Executable::compile(graph, &mut self.set, &self.policy)?;
            expect_on_target(&executable, self.target);
            self.executables.insert(tokens.len(), executable);
        }
        let executable = self.executables.get_mut(&tokens.len()).unwrap();
        executable.run(&mut self.set, &inputs, &mut ())?;
        let mut out = Vec::new();
        executable.read_output(&mut self.set, 0, &mut out)?;
        Ok(out)
    }
}

pub(crate) fn check() {
    for (n_head, n_head_kv, head_dim, head_dim_v) in
        [(4, 4, 32, 32), (14, 2, 64, 64), (6, 3, 80, 80), (4, 1, 128, 128), (6, 2, 96, 32), (3, 1, 20, 12)]
    {
        for format in FORMATS.into_iter().filter(|format| suits(*format, head_dim, head_dim_v)) {
            for window in [None, Some(1), Some(45)] {
                check_with(&spec(n_head, n_head_kv, head_dim, head_dim_v, format, window));
            }
        }
    }
}

/// Three sequences of different lengths grow in steps of several sizes; every token must match the
/// definition.
fn check_with(spec: &Spec) {
    let id = |seq: usize, position: usize| ((seq * 97 + position * 31) % N_VOCAB) as i32;
    for target in targets() {
        let mut session = Session::new(spec, &target);
        let mut lens = [0usize; 3];
        for growth in [[33, 0, 5], [1, 40, 1], [1, 1, 1], [0, 7, 90]] {
            let mut tokens = Vec::new();
            for (seq, n) in growth.into_iter().enumerate() {
                tokens.extend((lens[seq]..lens[seq] + n).map(|position| (seq, position, id(seq, position))));
                lens[seq] += n;
            }
            let got = session.step(&tokens);
            let row = spec.op.n_head * spec.op.head_dim_v;
            for (&(seq, position, _), got) in tokens.iter().zip(got.chunks(row)) {
                let ids: Vec<i32> = (0..=position).map(|position| id(seq, position)).collect();
                for (got, expected) in got.iter().zip(spec.reference(&ids)) {
                    let error = (f64::from(*got) - expected).abs();
                    assert!(
                        error < 2e-5,
                        "{}: {:?}: {seq} {position}: {got} {expected}",
                        target.name,
                        spec.op
                    );
                }
            }
        }
    }
}
