//! AVX2 kernels.

pub(super) mod activation;
pub(super) mod attention;
pub(super) mod convert;
pub(super) mod elementwise;
mod entry;
mod lanes;
pub(super) mod matmul;
mod matmul_float;
mod matmul_lanes;
mod matmul_packed;
mod matmul_quantise;
mod matmul_unpack;
mod matmul_unpack_k;
pub(super) mod norm;
pub(super) mod rope;
