//! AVX2 kernels.

pub(super) mod activation;
pub(super) mod attention;
pub(super) mod convert;
pub(super) mod elementwise;
mod entry;
mod lanes;
pub(super) mod matmul;
mod matmul_float;
pub(in crate::vec_ops) mod matmul_lanes;
pub(in crate::vec_ops) mod matmul_packed;
mod matmul_quantise;
pub(in crate::vec_ops) mod matmul_unpack;
pub(in crate::vec_ops) mod matmul_unpack_k;
pub(super) mod norm;
pub(super) mod rope;
pub(super) mod throughput;
