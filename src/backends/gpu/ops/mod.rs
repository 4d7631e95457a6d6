//! Launchers, each beside the source of its kernel.

pub(super) mod attn;
pub(super) mod batch_mat_mul;
pub(super) mod elementwise;
pub(super) mod epilogue;
pub(super) mod fused_ffn;
pub(super) mod fused_qkv;
pub(super) mod get_rows;
pub(super) mod kvcache_store;
pub(super) mod mat_mul;
pub(super) mod mat_mul_add;
pub(super) mod permute;
pub(super) mod product;
pub(super) mod rms_norm;
pub(super) mod rope;
pub(super) mod softmax;

use super::launch::Launch;
use super::pipelines::{Binding, PipelineKey, Shader, read, write};
use super::record::{Bound, Dispatch};
use crate::graph::{BackendError, Op};

/// Index of a workgroup that was launched in two dimensions.
const GRID: &str = include_str!("../wgsl/grid.wgsl");
const ACTIVATION: &str = include_str!("../wgsl/activation.wgsl");
const RMS: &str = include_str!("../wgsl/rms.wgsl");
/// What `RMS` adds up with.
const SUM: &str = include_str!("../wgsl/sum.wgsl");
const HALVES: &str = include_str!("../wgsl/halves.wgsl");
const Q8_0: &str = include_str!("../wgsl/q8_0.wgsl");
const ROTATION: &str = include_str!("../wgsl/rotation.wgsl");
