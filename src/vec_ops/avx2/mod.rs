//! AVX2 kernels.
