//! gguf.
