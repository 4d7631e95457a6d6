//! Fuzz entry points.

mod gguf;

pub use gguf::gguf;
