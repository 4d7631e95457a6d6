//! AVX-512 kernels, where they differ from AVX2.

pub(super) mod matmul;
mod matmul_pair;
pub(super) mod throughput;
