//! Portable kernels: the specification.

pub mod dequant;
pub(super) mod matmul;
mod matmul_unpack;
