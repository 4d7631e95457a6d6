//! minfer runs GGUF language models as a declarative compute graph.
//!
//! The modules below are listed in data-flow order: a module uses only modules above it
//! (`tests/layers.rs` checks that).

pub mod error;
pub mod config;
pub mod tensor;
pub mod gguf;
pub mod threads;
pub mod vec_ops;
pub mod graph;
pub mod backends;
pub mod kv;
pub mod models;
pub mod text;
pub mod engine;
pub mod store;
pub mod cli;
