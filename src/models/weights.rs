//! Every weight of a model by name, with its shape checked against the hyper-parameters.

use super::{Architecture, HParams, ModelError};
use crate::graph::WeightRef;
use crate::tensor::{DType, Shape};

/// Shape and type of the tensor with a name, if there is one.
pub type TensorLookup<'a> = dyn Fn(&str) -> Option<(Shape, DType)> + 'a;

/// A matrix and perhaps a bias: `y = W x + b`.
#[derive(Clone, PartialEq, Debug)]
pub struct Linear {
    /// `[n_in, n_out]`.
    pub weight: WeightRef,
    /// `[n_out] f32`.
    pub bias: Option<WeightRef>,
}

impl Linear {
    fn all(&self) -> impl Iterator<Item = &WeightRef> {
        std::iter::once(&self.weight).chain(&self.bias)
    }
}

/// Weights of one transformer block.
#[derive(Clone, PartialEq, Debug)]
pub struct LayerWeights {
    /// `[n_embd] f32`, before attention.
    pub attn_norm: WeightRef,
    /// `[n_embd, head_dim * n_head]`.
    pub attn_q: Linear,
    /// `[n_embd, head_dim * n_head_kv]`.
    pub attn_k: Linear,
    /// `[n_embd, head_dim_v * n_head_kv]`.
    pub attn_v: Linear,
    /// `[head_dim] f32` each, for Q and K, where the architecture has per-head norms.
    pub qk_norms: Option<(WeightRef, WeightRef)>,
    /// `[head_dim_v * n_head, n_embd]`.
    pub attn_output: Linear,
    /// `[n_embd] f32`, before the feed-forward layer.
    pub ffn_norm: WeightRef,
    /// `[n_embd, n_ff]`.
    pub ffn_gate: Linear,
    /// `[n_embd, n_ff]`.
    pub ffn_up: Linear,
    /// `[n_ff, n_embd]`.
    pub ffn_down: Linear,
}

impl LayerWeights {
    /// Every weight of the block.
    pub fn all(&self) -> Vec<&WeightRef> {
        let LayerWeights { attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down, .. } = self;
        let linears = [attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down];
        let mut all = vec![&self.attn_norm, &self.ffn_norm];
        all.extend(linears.into_iter().flat_map(Linear::all));
        all.extend(self.qk_norms.iter().flat_map(|(q_norm, k_norm)| [q_norm, k_norm]));
        all
    }

    /// The matrices that a fused decode kernel reads one after the other: those of Q, K and V, and those of
    /// gate and up.
    pub fn groups(&self) -> [Vec<&WeightRef>; 2] {
        [
            vec![&self.attn_q.weight, &self.attn_k.weight, &self.attn_v.weight],
            vec![&self.ffn_gate.weight, &self.ffn_up.weight],
        ]
    }
}

/// All weights of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct Weights {
    /// `[n_embd, n_vocab]`.
    pub token_embd: WeightRef,
    /// One entry per block.
    pub layers: Vec<LayerWeights>,
    /// `[n_embd] f32`, before the head.
    pub output_norm: WeightRef,
    /// `[n_embd, n_vocab]`: the head; the embedding table where the file has no matrix of its own.
    pub output: Linear,
    /// `[n_rot / 2] f32`: divisors of RoPE's frequencies.
    pub rope_freqs: Option<WeightRef>,
}

impl Weights {
    pub(super) fn find(
        arch: &'static Architecture,
        hparams: &HParams,
        tensors: &TensorLookup<'_>,
    ) -> Result<Weights, ModelError> {
        let find = Finder { arch, tensors };
        let HParams { n_embd, n_vocab, n_layer, .. } = *hparams;
        let token_embd = find.matrix("token_embd.weight", n_embd, n_vocab)?;
        let output = match find.optional("output.weight", Shape::d2(n_embd, n_vocab))? {
            Some(_) => find.linear("output", n_embd, n_vocab)?,
            None => Linear { weight: token_embd.clone(), bias: None },
        };
        let n_freqs = hparams.rope.n_rot / 2;
        let rope_freqs =
            if arch.rope_freqs { find.optional_vector("rope_freqs.weight", n_freqs)? } else { None };
        let layers = (0..n_layer).map(|il| find.layer(il, hparams)).collect::<Result<_, _>>()?;
        let output_norm = find.vector("output_norm.weight", n_embd)?;
        Ok(Weights { token_embd, layers, output_norm, output, rope_freqs })
    }

    /// Every weight of embedding, final norm and head; the embedding table once, though a tied head reads it
    /// too.
    pub fn around_blocks(&self) -> Vec<&WeightRef> {
        let mut all = vec![&self.token_embd, &self.output_norm];
        all.extend(self.output.all().filter(|weight| weight.name != self.token_embd.name));
        all
    }

    /// True if the head is the embedding table.
    pub fn tied(&self) -> bool {
        self.output.weight.name == self.token_embd.name
    }
}

struct Finder<'a> {
    arch: &'static Architecture,
    tensors: &'a TensorLookup<'a>,
}

impl Finder<'_> {
    fn layer(&self, il: usize, hparams: &HParams) -> Result<LayerWeights, ModelError> {
        let name = |part: &str| format!("blk.{il}.{part}");
        let HParams { n_embd, n_ff, n_head, head_dim, head_dim_v, .. } = *hparams;
        let qk_norms = match self.arch.qk_norm {
            true => Some((
                self.vector(&name("attn_q_norm.weight"), head_dim)?,
                self.vector(&name("attn_k_norm.weight"), head_dim)?,
            )),
            false => None,
        };
        Ok(LayerWeights {
            attn_norm: self.vector(&name("attn_norm.weight"), n_embd)?,
            attn_q: self.linear(&name("attn_q"), n_embd, hparams.n_embd_q())?,
            attn_k: self.linear(&name("attn_k"), n_embd, hparams.n_embd_k())?,
            attn_v: self.linear(&name("attn_v"), n_embd, hparams.n_embd_v())?,
            qk_norms,
            attn_output: self.linear(&name("attn_output"), head_dim_v * n_head, n_embd)?,
            ffn_norm: self.vector(&name("ffn_norm.weight"), n_embd)?,
            ffn_gate: self.linear(&name("ffn_gate"), n_embd, n_ff)?,
            ffn_up: self.linear(&name("ffn_up"), n_embd, n_ff)?,
            ffn_down: self.linear(&name("ffn_down"), n_ff, n_embd)?,
        })
    }

    /// `NAME.weight` and, where the file has it, `NAME.bias`.
    fn linear(&self, name: &str, n_in: usize, n_out: usize) -> Result<Linear, ModelError> {
        Ok(Linear {
            weight: self.matrix(&format!("{name}.weight"), n_in, n_out)?,
            bias: self.optional_vector(&format!("{name}.bias"), n_out)?,
        })
    }

    fn matrix(&self, name: &str, n_in: usize, n_out: usize) -> Result<WeightRef, ModelError> {
        let weight = self.required(name, self.optional(name, Shape::d2(n_in, n_out))?)?;
        match weight.dtype {
            got @ DType::I32 => Err(ModelError::NoWeightType { name: name.to_string(), got }),
            _ => Ok(weight),
        }
    }

    fn vector(&self, name: &str, n: usize) -> Result<WeightRef, ModelError> {
        self.required(name, self.optional_vector(name, n)?)
    }

    fn required(&self, name: &str, found: Option<WeightRef>) -> Result<WeightRef, ModelError> {
        found.ok_or_else(|| ModelError::MissingTensor { name: name.to_string(), arch: self.arch.name })
    }

    fn optional_vector(&self, name: &str, n: usize) -> Result<Option<WeightRef>, ModelError> {
        match self.optional(name, Shape::d1(n))? {
            Some(found) if found.dtype != DType::F32 => {
                Err(ModelError::WrongType { name: name.to_string(), expected: DType::F32, got: found.dtype })
            }
            found => Ok(found),
        }
    }

    fn optional(&self, name: &str, shape: Shape) -> Result<Option<WeightRef>, ModelError> {
        match (self.tensors)(name) {
            None => Ok(None),
            Some((got, _)) if got != shape => {
                Err(ModelError::WrongShape { name: name.to_string(), expected: shape, got })
            }
            Some((shape, dtype)) => Ok(Some(WeightRef { name: name.into(), shape, dtype })),
        }
    }
}
