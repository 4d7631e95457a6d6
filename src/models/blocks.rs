//! The pieces that all architectures share, and the graph made of them.
//!
//! ```text
//! x = token_embd[token_ids]                                        [n_embd, n_tokens]
//! per block:
//!     x = x + attn_output(attention(attn_norm(x)))                 [n_embd, n_tokens]
//!     x = x + ffn_down(silu(ffn_gate(ffn_norm(x))) * ffn_up(..))   [n_embd, n_tokens]
//! logits = output(output_norm(x))                                  [n_vocab, n_out]
//! ```
//! In the last block only the rows that need logits go on after the attention's projection.

mod decode;

use super::{LayerWeights, Linear, Model};
use crate::graph::{
    ActivationPrecision, Add, Attn, BuildQuery, CParams, GetRows, Graph, GraphBuilder, GraphError,
    GraphParams, InputKind, KvShape, KvcacheLoad, KvcacheStore, MatMul, Mul, NodeId, Op, QkNorm, RmsNorm,
    RoPE, Silu, WeightRef,
};

/// Builds the graph of `params`.
pub(super) fn build(
    model: &Model,
    params: &GraphParams,
    query: &dyn BuildQuery,
) -> Result<Graph, GraphError> {
    let mut blocks = Blocks { model, params: *params, query, b: GraphBuilder::new(*params), il: 0 };
    blocks.all();
    blocks.b.finish()
}

/// A graph under construction and the block that is being added.
struct Blocks<'a> {
    model: &'a Model,
    params: GraphParams,
    query: &'a dyn BuildQuery,
    b: GraphBuilder,
    il: usize,
}

impl<'a> Blocks<'a> {
    fn all(&mut self) {
        let ids = self.inputs();
        let mut x = self.b.node("token_embd", GetRows, &[ids], &[&self.model.weights.token_embd]);
        for il in 0..self.model.hparams.n_layer {
            self.il = il;
            self.b.set_layer(Some(il as u32));
            match self.block(x) {
                Some(next) => x = next,
                None => return,
            }
        }
        self.b.set_layer(None);
        self.head(x);
    }

    /// All inputs, ahead of the blocks that share them. Returns the token ids.
    fn inputs(&mut self) -> NodeId {
        let ids = self.b.input(InputKind::TokenIds);
        for kind in [InputKind::Positions, InputKind::Cells, InputKind::SeqIds, InputKind::KvPages] {
            self.b.input(kind);
        }
        if self.has_tail() {
            self.b.input(InputKind::TailIds);
        }
        ids
    }

    /// One block. `None` if the graph ends in it: in a step without output, the last block only stores keys
    /// and values.
    fn block(&mut self, x: NodeId) -> Option<NodeId> {
        let weights = self.weights();
        if self.is_last() && self.params.n_out == 0 {
            let normed = self.norm("attn_norm", x, &weights.attn_norm);
            self.store_only(normed);
            return None;
        }
        let (q, kv) = self.queries_and_kv(x);
        let attended = self.attention(q, kv);
        let projected = self.linear("attn_output", attended, &weights.attn_output);
        let (projected, x) = self.tail_rows(projected, x);
        let x = self.add("attn_residual", projected, x);
        let activated = self.gated(x);
        let down = self.linear("ffn_down", activated, &weights.ffn_down);
        Some(self.add("ffn_residual", down, x))
    }

    /// Final norm and head.
    fn head(&mut self, x: NodeId) {
        let (weights, norm) = (&self.model.weights, self.rms_norm());
        let normed = self.b.node("output_norm", norm, &[x], &[&weights.output_norm]);
        // An error here is one in the answer, and only rows that need logits get here.
        let precision = ActivationPrecision::Bits16;
        let logits = matmul(&mut self.b, "output".to_string(), normed, &weights.output, precision);
        self.b.output(logits);
    }

    /// Rotated queries of the normalised `x`, and the layer's regions with this step's keys and values in.
    fn queries_and_kv(&mut self, x: NodeId) -> (NodeId, NodeId) {
        if let Some(fused) = self.fused_qkv(x) {
            return fused;
        }
        let weights = self.weights();
        let normed = self.norm("attn_norm", x, &weights.attn_norm);
        let q = self.precise("attn_q", normed, &weights.attn_q);
        let norm = weights.qk_norms.as_ref().map(|(q_norm, _)| q_norm);
        let q = self.rotated("attn_q", q, norm);
        let stored = self.store_only(normed);
        (q, self.load(stored))
    }

    /// Keys and values, and their way into the layer's regions.
    fn store_only(&mut self, normed: NodeId) -> NodeId {
        let weights = self.weights();
        let k = self.precise("attn_k", normed, &weights.attn_k);
        let v = self.precise("attn_v", normed, &weights.attn_v);
        let norm = weights.qk_norms.as_ref().map(|(_, k_norm)| k_norm);
        let k = self.rotated("attn_k", k, norm);
        let cells = self.b.input(InputKind::Cells);
        let store = self.kv_store();
        self.node("kv_store", store, &[k, v, cells], &[])
    }

    /// Queries or keys after the per-head norm, if there is one, and RoPE.
    fn rotated(&mut self, part: &str, x: NodeId, norm: Option<&WeightRef>) -> NodeId {
        let x = match norm {
            Some(norm) => self.node(&format!("{part}_norm"), self.qk_norm(), &[x], &[norm]),
            None => x,
        };
        let positions = self.b.input(InputKind::Positions);
        let freqs: Vec<&WeightRef> = self.model.weights.rope_freqs.iter().collect();
        self.node(&format!("{part}_rope"), self.rope(), &[x, positions], &freqs)
    }

    fn attention(&mut self, q: NodeId, kv: NodeId) -> NodeId {
        let kinds = [InputKind::Positions, InputKind::SeqIds, InputKind::KvPages];
        let [positions, seq_ids, kv_pages] = kinds.map(|kind| self.b.input(kind));
        self.node("attn", self.attn(), &[q, kv, positions, seq_ids, kv_pages], &[])
    }

    /// The rows of the last block that need logits.
    fn tail_rows(&mut self, projected: NodeId, x: NodeId) -> (NodeId, NodeId) {
        if !self.is_last() || !self.has_tail() {
            return (projected, x);
        }
        let tail = self.b.input(InputKind::TailIds);
        let projected = self.node("attn_output_tail", GetRows, &[projected, tail], &[]);
        (projected, self.node("residual_tail", GetRows, &[x, tail], &[]))
    }

    /// `silu(gate) * up` of the normalised `x` as two nodes, which the fusion pass makes one where the
    /// backend has the kernel.
    fn gated(&mut self, x: NodeId) -> NodeId {
        if let Some(fused) = self.fused_ffn(x) {
            return fused;
        }
        let weights = self.weights();
        let normed = self.norm("ffn_norm", x, &weights.ffn_norm);
        let gate = self.linear("ffn_gate", normed, &weights.ffn_gate);
        let up = self.linear("ffn_up", normed, &weights.ffn_up);
        let gate = self.node("ffn_silu", Silu, &[gate], &[]);
        self.node("ffn_act", Mul, &[gate, up], &[])
    }

    fn norm(&mut self, part: &str, x: NodeId, weight: &WeightRef) -> NodeId {
        self.node(part, self.rms_norm(), &[x], &[weight])
    }

    fn add(&mut self, part: &str, a: NodeId, b: NodeId) -> NodeId {
        self.node(part, Add, &[a, b], &[])
    }

    fn linear(&mut self, part: &str, x: NodeId, linear: &Linear) -> NodeId {
        let name = self.name(part);
        matmul(&mut self.b, name, x, linear, ActivationPrecision::Bits8)
    }

    /// As [`Blocks::linear`], for what attention works with. Its exponential makes errors in the products of
    /// queries and keys factors of the weights, and keys and values stay in the cache for all later tokens.
    /// So these products, the smallest of a block, keep more of their activations.
    fn precise(&mut self, part: &str, x: NodeId, linear: &Linear) -> NodeId {
        let name = self.name(part);
        matmul(&mut self.b, name, x, linear, ActivationPrecision::Bits16)
    }

    fn load(&mut self, stored: NodeId) -> NodeId {
        let layer = self.il as u32;
        self.node("kv_load", KvcacheLoad { layer }, &[stored], &[])
    }

    fn node(&mut self, part: &str, op: impl Into<Op>, src: &[NodeId], weights: &[&WeightRef]) -> NodeId {
        let name = self.name(part);
        self.b.node(name, op, src, weights)
    }

    fn name(&self, part: &str) -> String {
        format!("blk.{}.{part}", self.il)
    }

    fn weights(&self) -> &'a LayerWeights {
        &self.model.weights.layers[self.il]
    }

    /// Some rows need logits and some do not.
    fn has_tail(&self) -> bool {
        (1..self.params.n_tokens).contains(&self.params.n_out)
    }

    fn is_last(&self) -> bool {
        self.il + 1 == self.model.hparams.n_layer
    }

    fn rope(&self) -> RoPE {
        self.model.hparams.rope.op(self.model.arch, self.model.hparams.head_dim)
    }

    fn rms_norm(&self) -> RmsNorm {
        RmsNorm { eps: self.model.hparams.eps }
    }

    fn attn(&self) -> Attn {
        let hparams = &self.model.hparams;
        Attn {
            n_head: hparams.n_head,
            n_head_kv: hparams.n_head_kv,
            head_dim: hparams.head_dim,
            head_dim_v: hparams.head_dim_v,
            scale: 1.0 / (hparams.head_dim as f32).sqrt(),
            window: None,
        }
    }

    fn qk_norm(&self) -> QkNorm {
        QkNorm { head_dim: self.model.hparams.head_dim, eps: self.model.hparams.eps }
    }

    fn kv_store(&self) -> KvcacheStore {
        KvcacheStore { layer: self.il as u32, kv: self.model.kv_shape(&self.params.cparams) }
    }
}

/// `W x (+ b)`.
fn matmul(
    b: &mut GraphBuilder,
    name: String,
    x: NodeId,
    linear: &Linear,
    activations: ActivationPrecision,
) -> NodeId {
    let mut weights = vec![&linear.weight];
    weights.extend(&linear.bias);
    b.node(name, MatMul { bias: linear.bias.is_some(), activations }, &[x], &weights)
}

impl Model {
    /// Shape of every layer's KV regions in a context with `cparams`.
    pub fn kv_shape(&self, cparams: &CParams) -> KvShape {
        KvShape {
            n_cells: cparams.n_ctx,
            k_row_elems: self.hparams.n_embd_k(),
            v_row_elems: self.hparams.n_embd_v(),
            format: cparams.kv_format,
        }
    }
}
