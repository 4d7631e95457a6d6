//! From metadata to the RoPE op.

use super::hparams::Keys;
use super::{Architecture, ModelError};
use crate::graph::{RoPE, Yarn};

/// RoPE's constants.
#[derive(Clone, PartialEq, Debug)]
pub struct RopeParams {
    /// Elements of a head that are rotated, from its start; even, at most `head_dim`.
    pub n_rot: usize,
    /// Base of the geometric series of frequencies.
    pub freq_base: f32,
    /// Factor on all angles: the reciprocal of the scaling factor, 1 without scaling.
    pub freq_scale: f32,
    /// YaRN's correction, if the model was trained with it.
    pub yarn: Option<Yarn>,
}

impl RopeParams {
    pub(super) fn from_metadata(
        keys: &Keys<'_>,
        head_dim: usize,
        n_ctx_train: usize,
    ) -> Result<RopeParams, ModelError> {
        let n_rot = keys.usize("rope.dimension_count")?.unwrap_or(head_dim);
        if n_rot == 0 || !n_rot.is_multiple_of(2) || n_rot > head_dim {
            return keys.bad("rope.dimension_count", format!("an even number from 2 to {head_dim}"), n_rot);
        }
        let freq_base = keys.positive_f32("rope.freq_base", 10000.0)?;
        let kind = keys.str("rope.scaling.type")?.unwrap_or("linear");
        let factor = scaling_factor(keys)?;
        let (freq_scale, yarn) = match kind {
            "none" => (1.0, None),
            "linear" => (1.0 / factor, None),
            "yarn" => (1.0 / factor, Some(yarn(keys, n_ctx_train)?)),
            other => return keys.bad("rope.scaling.type", "none, linear or yarn", format!("{other:?}")),
        };
        Ok(RopeParams { n_rot, freq_base, freq_scale, yarn })
    }

    /// The op that rotates heads of `head_dim` elements.
    pub fn op(&self, arch: &Architecture, head_dim: usize) -> RoPE {
        RoPE {
            style: arch.rope_style,
            head_dim,
            n_rot: self.n_rot,
            freq_base: self.freq_base,
            freq_scale: self.freq_scale,
            yarn: self.yarn,
        }
    }
}

/// The context extension factor; files write 0 for none, and older ones use another key.
fn scaling_factor(keys: &Keys<'_>) -> Result<f32, ModelError> {
    for key in ["rope.scaling.factor", "rope.scale_linear"] {
        match keys.f32(key)? {
            None | Some(0.0) => {}
            Some(factor) if factor.is_finite() && factor > 0.0 => return Ok(factor),
            Some(factor) => return keys.bad(key, "a positive number", factor),
        }
    }
    Ok(1.0)
}

fn yarn(keys: &Keys<'_>, n_ctx_train: usize) -> Result<Yarn, ModelError> {
    let n_ctx_orig = keys.usize("rope.scaling.original_context_length")?.unwrap_or(n_ctx_train);
    if n_ctx_orig == 0 {
        return keys.bad("rope.scaling.original_context_length", "at least 1", 0);
    }
    Ok(Yarn {
        ext_factor: keys.positive_f32("rope.scaling.yarn_ext_factor", 1.0)?,
        attn_factor: keys.positive_f32("rope.scaling.attn_factor", 1.0)?,
        beta_fast: keys.positive_f32("rope.scaling.yarn_beta_fast", 32.0)?,
        beta_slow: keys.positive_f32("rope.scaling.yarn_beta_slow", 1.0)?,
        n_ctx_orig,
    })
}
