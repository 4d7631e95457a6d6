//! qwen2: halves of a head rotate against each other; Q, K and V have biases.

use super::Architecture;
use crate::graph::RopeStyle;

pub(super) const QWEN2: Architecture =
    Architecture { name: "qwen2", rope_style: RopeStyle::NonInterleaved, qk_norm: false, rope_freqs: false };
