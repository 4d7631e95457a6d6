//! Launchers: each checks what only its op knows and hands slices to the arithmetic.

pub(super) mod add;
pub(super) mod attn;
pub(super) mod batch_mat_mul;
pub(super) mod get_rows;
pub(super) mod kvcache_store;
pub(super) mod mat_mul;
pub(super) mod mul;
pub(super) mod permute;
pub(super) mod qk_norm;
pub(super) mod rms_norm;
pub(super) mod rope;
pub(super) mod scale;
pub(super) mod silu;
pub(super) mod softmax;
pub(super) mod swiglu;

mod elementwise;

use super::launch::{InPlace, Launch};
use super::parallel::for_rows;
use crate::graph::{BackendError, Op};
