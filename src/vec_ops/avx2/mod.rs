//! AVX2 kernels.

pub(super) mod activation;
pub(super) mod attention;
pub(super) mod convert;
pub(super) mod elementwise;
mod entry;
mod lanes;
pub(super) mod norm;
pub(super) mod rope;
