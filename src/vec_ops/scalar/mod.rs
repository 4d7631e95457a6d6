//! Portable kernels: the specification.

pub mod dequant;
