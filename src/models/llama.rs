//! llama: pairs of neighbours rotate (the file's Q and K rows are permuted for that), and frequencies may be corrected.

use super::Architecture;
use crate::graph::RopeStyle;

pub(super) const LLAMA: Architecture =
    Architecture { name: "llama", rope_style: RopeStyle::Interleaved, qk_norm: false, rope_freqs: true };
