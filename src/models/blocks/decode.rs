//! The pieces of a decode step on a device that has fused kernels for them.
//!
//! ```text
//! qkv = [attn_q attn_k attn_v] attn_norm(x)     [n_embd_q + n_embd_k + n_embd_v, 1]
//! q = rotated q of qkv (+ biases), and the layer's keys and values stored
//! act = silu(ffn_gate ffn_norm(x)) * ffn_up ..  [n_ff, 1]
//! ```

use super::{Blocks, LayerWeights};
use crate::graph::{
    Candidate, FusedFFN, FusedQKV, FusedQkvNorm, InputKind, NodeId, Op, QkvBiasRopeStore, RmsNorm, View,
    WeightRef, fuses_ffn, fuses_qkv,
};
use crate::tensor::Shape;

/// A norm of the block by the name of its part, with its weight.
type Norm<'a> = (&'static str, &'a WeightRef);

/// A product that takes the place of several.
struct FusedProduct<'a> {
    op: Op,
    weights: Vec<&'a WeightRef>,
    /// The norm that has to come before it as a node of its own.
    norm: Option<Norm<'a>>,
}

impl FusedProduct<'_> {
    fn candidate(&self) -> Candidate<'_> {
        Candidate { op: &self.op, weights: &self.weights }
    }
}

impl<'a> Blocks<'a> {
    /// The fused form of [`Blocks::queries_and_kv`], if this is a decode step on a device that has it.
    pub(super) fn fused_qkv(&mut self, x: NodeId) -> Option<(NodeId, NodeId)> {
        let LayerWeights { attn_norm, attn_q, attn_k, attn_v, .. } = self.weights();
        let matrices = [&attn_q.weight, &attn_k.weight, &attn_v.weight];
        let (epilogue, weights) = self.fused_epilogue()?;
        let (after, attn) = (Candidate { op: &epilogue, weights: &weights }, Op::from(self.attn()));
        let forms = self.forms(("attn_norm", attn_norm), &matrices, |norm| FusedQKV { norm }.into());
        let product = forms.into_iter().find(|product| {
            fuses_qkv(&self.params, self.query, self.il as u32, product.candidate(), after, &attn)
        })?;
        let qkv = self.fused_product("attn_qkv", product, x);
        let (positions, cells) = (self.b.input(InputKind::Positions), self.b.input(InputKind::Cells));
        let q = self.node("attn_q_rope_store", epilogue, &[qkv, positions, cells], &weights);
        Some((q, self.load(q)))
    }

    /// What follows a fused product in this block; `None` if no op does all that its weights ask for.
    fn fused_epilogue(&self) -> Option<(Op, Vec<&'a WeightRef>)> {
        let LayerWeights { attn_q, attn_k, attn_v, qk_norms, .. } = self.weights();
        let (n_q, rope, store) = (self.model.hparams.n_embd_q(), self.rope(), self.kv_store());
        let biases = [&attn_q.bias, &attn_k.bias, &attn_v.bias];
        let n_biases = biases.iter().filter(|bias| bias.is_some()).count();
        let (op, mut weights) = match (qk_norms, n_biases) {
            (Some((q, k)), 0) => {
                (Op::from(FusedQkvNorm { n_q, norm: self.qk_norm(), rope, store }), vec![q, k])
            }
            (None, 0) => (Op::from(QkvBiasRopeStore { n_q, bias: false, rope, store }), vec![]),
            (None, 3) => {
                let op = QkvBiasRopeStore { n_q, bias: true, rope, store };
                (Op::from(op), biases.into_iter().flatten().collect())
            }
            _ => return None,
        };
        weights.extend(&self.model.weights.rope_freqs);
        Some((op, weights))
    }

    /// The fused form of [`Blocks::gated`], if this is a decode step on a device that has it.
    pub(super) fn fused_ffn(&mut self, x: NodeId) -> Option<NodeId> {
        let LayerWeights { ffn_norm, ffn_gate, ffn_up, .. } = self.weights();
        if ffn_gate.bias.is_some() || ffn_up.bias.is_some() {
            return None;
        }
        let matrices = [&ffn_gate.weight, &ffn_up.weight];
        let forms = self.forms(("ffn_norm", ffn_norm), &matrices, |norm| FusedFFN { norm }.into());
        let product = forms
            .into_iter()
            .find(|product| fuses_ffn(&self.params, self.query, self.il as u32, product.candidate()))?;
        let both = self.fused_product("ffn_gate_up", product, x);
        let activation = View { offset_elems: 0, shape: Shape::d2(self.model.hparams.n_ff, 1) };
        Some(self.node("ffn_act", activation, &[both], &[]))
    }

    /// The forms that a device may have a fused product in, the better one first: with the norm before it,
    /// and without.
    fn forms(
        &self,
        norm: Norm<'a>,
        matrices: &[&'a WeightRef],
        product: fn(Option<RmsNorm>) -> Op,
    ) -> [FusedProduct<'a>; 2] {
        let all = [&[norm.1], matrices].concat();
        [
            FusedProduct { op: product(Some(self.rms_norm())), weights: all, norm: None },
            FusedProduct { op: product(None), weights: matrices.to_vec(), norm: Some(norm) },
        ]
    }

    /// The node of `product`, after the norm that it does not include.
    fn fused_product(&mut self, part: &str, product: FusedProduct<'a>, x: NodeId) -> NodeId {
        let x = match product.norm {
            Some((norm, weight)) => self.norm(norm, x, weight),
            None => x,
        };
        self.node(part, product.op, &[x], &product.weights)
    }
}
