//! The planner's stages on the null backend, and steps on a small arithmetic backend.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alloc;
mod arithmetic;
mod assign;
mod builder;
mod cache;
mod common;
mod decode_fusion;
mod exec;
mod fusion;
mod fusion_mat_mul_add;
mod golden;
mod registry;
mod schedule;
mod verify;
