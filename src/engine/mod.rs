//! engine.

pub mod sampler;
