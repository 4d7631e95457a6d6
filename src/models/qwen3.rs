//! qwen3: halves of a head rotate against each other, after a norm of every head; `head_dim` is its own key.

use super::Architecture;
use crate::graph::RopeStyle;

pub(super) const QWEN3: Architecture =
    Architecture { name: "qwen3", rope_style: RopeStyle::NonInterleaved, qk_norm: true, rope_freqs: false };
