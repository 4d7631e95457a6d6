//! minfer runs GGUF language models as a declarative compute graph.
//!
//! The modules below are listed in data-flow order: a module uses only modules above it
//! (`tests/layers.rs` checks that).

pub mod backends;
pub mod cli;
pub mod config;
pub mod engine;
pub mod error;
pub mod gguf;
pub mod graph;
pub mod kv;
pub mod models;
pub mod store;
pub mod tensor;
pub mod text;
pub mod threads;
pub mod vec_ops;
