//! The compute graph and its stages: build, assign, fuse, allocate, split, execute.
//!
//! A [`Graph`] is a plain list of [`Node`]s. Build order is execution order is liveness order: a node's sources
//! come before it, and no stage ever reorders, adds or removes nodes.

mod backend;
mod node;
mod ops;
mod params;

pub use backend::{Backend, BackendError, BufferId, KvSpec, NodeCall, Operand, Slot};
pub use node::{BackendId, Graph, Node, NodeId, NodeMeta, TensorSpec, WeightRef};
pub use ops::*;
pub use params::{CParams, GraphParams, GraphType, KvFormat, PAGE_TOKENS};
