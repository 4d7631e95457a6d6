//! Tensors as GGUF files hold them: element types, shapes, quantised block layouts, and named tensors in memory.

mod blocks;
mod dtype;
mod shape;
mod tensors;

pub use blocks::*;
pub use dtype::DType;
pub use shape::Shape;
pub use tensors::{Tensor, TensorBytes, TensorMap};
