//! Portable kernels: the specification.

pub(super) mod activation;
pub(super) mod attention;
pub(super) mod convert;
pub mod dequant;
pub(super) mod elementwise;
pub(super) mod exp;
pub(super) mod matmul;
mod matmul_unpack;
pub(super) mod norm;
pub(super) mod rope;
pub(super) mod throughput;
