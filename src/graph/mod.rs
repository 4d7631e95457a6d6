//! The compute graph and its stages: build, assign, fuse, allocate, split, execute.
//!
//! A [`Graph`] is a plain list of [`Node`]s. Build order is execution order is liveness order: a node's
//! sources come before it, and no stage ever reorders, adds or removes nodes. [`GraphBuilder`] makes graphs,
//! [`Executable::compile`] takes one through the stages, [`GraphCache`] keeps the results, and the verifier
//! checks the graph after every stage.

mod backend;
mod device;
mod node;
mod ops;
mod params;

mod error;
mod registry;

mod builder;
mod decode_fusion;

mod alloc;
mod assign;
mod fusion;
mod liveness;
mod scheduler;
mod set;
mod verify;

mod cache;
mod census;
mod exec;
mod inputs;
mod observer;

mod dot;
mod json;
mod text;

pub use alloc::{Place, Plan, PlannedBuffer, size_class};
pub use assign::{AssignQuery, Policy, assign};
pub(crate) use backend::MAX_SOURCES;
pub use backend::{Backend, BackendError, BufferId, NodeCall, Operand, Slot, WorkCounts};
pub use builder::GraphBuilder;
pub use cache::{DEFAULT_GRAPHS, GraphCache};
pub use census::{Census, CensusRow};
pub use decode_fusion::{BuildQuery, Candidate, MAX_FUSED_FF, NoDevice, fuses_ffn, fuses_qkv};
pub use device::{Device, DeviceInfo, DeviceKind};
pub use error::{GraphError, Stage};
pub use exec::Executable;
pub use fusion::fuse;
pub use inputs::Inputs;
pub use liveness::{Liveness, Role, Root};
pub use node::{BackendId, Graph, Node, NodeId, NodeMeta, TensorSpec, WeightRef};
pub use observer::{NodeSources, NodeValue, Observer};
pub use ops::*;
pub use params::{CParams, GraphParams, GraphType, KvFormat, PAGE_TOKENS};
pub use registry::{Availability, BuiltBackend, FenceError, KnownBackend, OpenDevice, Registry};
pub use scheduler::{Schedule, Split, SplitId, ValueCopy};
pub use set::BackendSet;
