//! Portable kernels: the specification.
