//! AVX2 kernels.

pub(super) mod matmul;
mod matmul_float;
mod matmul_quantise;
mod matmul_unpack;
mod matmul_unpack_k;
