//! Sizes and constants from metadata, checked before anything is computed from them.

use std::fmt::Display;

use super::{Architecture, ModelError, RopeParams, TensorLookup};
use crate::gguf::Metadata;

/// Sizes and constants of a model. All sizes are at least 1.
#[derive(Clone, PartialEq, Debug)]
pub struct HParams {
    /// Context length that the model was trained with, in tokens.
    pub n_ctx_train: usize,
    /// Rows of the embedding table and of the head.
    pub n_vocab: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Transformer blocks.
    pub n_layer: usize,
    /// Query heads.
    pub n_head: usize,
    /// Key and value heads; divides `n_head`.
    pub n_head_kv: usize,
    /// Elements of a query or key head.
    pub head_dim: usize,
    /// Elements of a value head.
    pub head_dim_v: usize,
    /// Width of the feed-forward layer.
    pub n_ff: usize,
    /// Added to the mean square in norms.
    pub eps: f32,
    /// RoPE's constants.
    pub rope: RopeParams,
}

impl HParams {
    /// Elements of a row of Q: `head_dim * n_head`.
    pub fn n_embd_q(&self) -> usize {
        self.head_dim * self.n_head
    }

    /// Elements of a row of K: `head_dim * n_head_kv`.
    pub fn n_embd_k(&self) -> usize {
        self.head_dim * self.n_head_kv
    }

    /// Elements of a row of V: `head_dim_v * n_head_kv`.
    pub fn n_embd_v(&self) -> usize {
        self.head_dim_v * self.n_head_kv
    }

    pub(super) fn from_metadata(
        metadata: &Metadata,
        arch: &'static Architecture,
        tensors: &TensorLookup<'_>,
    ) -> Result<HParams, ModelError> {
        let keys = Keys { metadata, arch: arch.name };
        let n_ctx_train = keys.size("context_length")?;
        let (n_embd, n_vocab) = embedding(&keys, arch, tensors)?;
        let n_layer = n_layer(&keys, tensors)?;
        let (n_head, n_head_kv) = heads(&keys)?;
        let (head_dim, head_dim_v) = head_dims(&keys, n_embd, n_head)?;
        if let Some(n_expert @ 1..) = keys.usize("expert_count")? {
            return keys.bad("expert_count", "0: mixtures of experts are not supported", n_expert);
        }
        let eps = keys.metadata.require_f32(&keys.key("attention.layer_norm_rms_epsilon"))?;
        if !(eps.is_finite() && eps >= 0.0) {
            return keys.bad("attention.layer_norm_rms_epsilon", "a number that is not negative", eps);
        }
        let rope = RopeParams::from_metadata(&keys, head_dim, n_ctx_train)?;
        let n_ff = keys.size("feed_forward_length")?;
        Ok(HParams {
            n_ctx_train,
            n_vocab,
            n_embd,
            n_layer,
            n_head,
            n_head_kv,
            head_dim,
            head_dim_v,
            n_ff,
            eps,
            rope,
        })
    }
}

/// `n_embd`, which the embedding table must agree with, and that table's `n_vocab`.
fn embedding(
    keys: &Keys<'_>,
    arch: &'static Architecture,
    tensors: &TensorLookup<'_>,
) -> Result<(usize, usize), ModelError> {
    let n_embd = keys.size("embedding_length")?;
    let name = "token_embd.weight";
    let (shape, _) =
        tensors(name).ok_or_else(|| ModelError::MissingTensor { name: name.into(), arch: arch.name })?;
    let [row_len, n_vocab, ..] = shape.0;
    if row_len != n_embd {
        return keys.bad("embedding_length", format!("{row_len} as in {name} {shape}"), n_embd);
    }
    if let Some(n) = keys.usize("vocab_size")?.filter(|&n| n != n_vocab) {
        return keys.bad("vocab_size", format!("{n_vocab} as in {name} {shape}"), n);
    }
    Ok((n_embd, n_vocab))
}

/// `n_layer`, which must be the number of blocks in the file. Looking for the two blocks at the border keeps a wrong
/// count from being blamed on a tensor, and a huge one from being counted up to.
fn n_layer(keys: &Keys<'_>, tensors: &TensorLookup<'_>) -> Result<usize, ModelError> {
    let n_layer = keys.size("block_count")?;
    let has_block = |il: usize| {
        let parts = ["attn_norm", "attn_q", "ffn_down"];
        parts.iter().any(|part| tensors(&format!("blk.{il}.{part}.weight")).is_some())
    };
    if !has_block(n_layer - 1) || has_block(n_layer) {
        let n_blocks = (0..).take_while(|&il| has_block(il)).count();
        return keys.bad("block_count", format!("{n_blocks}, the number of blocks in the file"), n_layer);
    }
    Ok(n_layer)
}

fn heads(keys: &Keys<'_>) -> Result<(usize, usize), ModelError> {
    let n_head = keys.size("attention.head_count")?;
    let n_head_kv = keys.usize("attention.head_count_kv")?.unwrap_or(n_head);
    if n_head_kv == 0 || !n_head.is_multiple_of(n_head_kv) {
        let expected = format!("a divisor of {} {n_head}", keys.key("attention.head_count"));
        return keys.bad("attention.head_count_kv", expected, n_head_kv);
    }
    Ok((n_head, n_head_kv))
}

fn head_dims(keys: &Keys<'_>, n_embd: usize, n_head: usize) -> Result<(usize, usize), ModelError> {
    let dim = |key: &str| match keys.usize(key)? {
        Some(0) => keys.bad(key, "at least 1", 0),
        Some(dim) => Ok(dim),
        None if n_embd.is_multiple_of(n_head) => Ok(n_embd / n_head),
        None => {
            let expected = format!("a divisor of {} {n_embd}", keys.key("embedding_length"));
            keys.bad("attention.head_count", expected, n_head)
        }
    };
    Ok((dim("attention.key_length")?, dim("attention.value_length")?))
}

/// Reads `ARCH.key` entries.
pub(super) struct Keys<'a> {
    metadata: &'a Metadata,
    arch: &'static str,
}

impl Keys<'_> {
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.arch)
    }

    /// The error that blames `key`.
    pub(super) fn bad<T>(
        &self,
        key: &str,
        expected: impl Into<String>,
        got: impl Display,
    ) -> Result<T, ModelError> {
        Err(ModelError::BadValue { key: self.key(key), expected: expected.into(), got: got.to_string() })
    }

    pub(super) fn usize(&self, key: &str) -> Result<Option<usize>, ModelError> {
        Ok(self.metadata.u32(&self.key(key))?.map(|n| n as usize))
    }

    /// A required size of at least 1.
    pub(super) fn size(&self, key: &str) -> Result<usize, ModelError> {
        match self.metadata.require_u32(&self.key(key))? {
            0 => self.bad(key, "at least 1", 0),
            n => Ok(n as usize),
        }
    }

    pub(super) fn f32(&self, key: &str) -> Result<Option<f32>, ModelError> {
        Ok(self.metadata.f32(&self.key(key))?)
    }

    /// A number above 0 with a default.
    pub(super) fn positive_f32(&self, key: &str, default: f32) -> Result<f32, ModelError> {
        match self.f32(key)?.unwrap_or(default) {
            value if value.is_finite() && value > 0.0 => Ok(value),
            value => self.bad(key, "a positive number", value),
        }
    }

    pub(super) fn str(&self, key: &str) -> Result<Option<&str>, ModelError> {
        Ok(self.metadata.str(&self.key(key))?)
    }
}
