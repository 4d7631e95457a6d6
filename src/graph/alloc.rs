//! The allocator's plan: which buffer holds which value, a pure function of an assigned graph and its schedule.
//!
//! Build order is liveness order: a value lives from the node that computes it to the last node that reads it. Inputs
//! and outputs live throughout. An input is placed before anything runs; a copy lives from the start of the split
//! that needs it first. A result takes the place of a source if the op allows it and nobody else reads that source.
//! Aliases have no place of their own, orphans and KV regions none at all.
//!
//! Buffers are shared greedily: of the free buffers the smallest that is large enough, else the largest free one,
//! grown. Sizes are rounded up to classes, so that pools find spare buffers of graphs of similar shape.

use std::collections::HashMap;

use super::liveness::value_bytes;
use super::{BackendId, Graph, Liveness, Node, NodeId, Role, Schedule, Storage};

/// A buffer that a plan asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedBuffer {
    /// Whose pool it comes from.
    pub backend: BackendId,
    /// Its size: a size class.
    pub bytes: usize,
}

/// Where a value lies: at the start of a buffer of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Index of the buffer.
    pub buffer: usize,
}

/// Buffers and places of one graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    buffers: Vec<PlannedBuffer>,
    values: Vec<Option<Place>>,
    replicas: HashMap<(NodeId, BackendId), Place>,
}

impl Plan {
    /// Plans an assigned graph.
    pub fn of(graph: &Graph, live: &Liveness, schedule: &Schedule) -> Plan {
        let uses = Uses::of(graph, live);
        let mut planner = Planner::new(graph, live, uses);
        planner.run(schedule);
        planner.finish()
    }

    /// All buffers.
    pub fn buffers(&self) -> &[PlannedBuffer] {
        &self.buffers
    }

    /// The place of a node's own result; `None` for aliases, orphans and KV regions.
    pub fn value(&self, id: NodeId) -> Option<Place> {
        self.values[id.index()]
    }

    /// The place of the copy of a value on another backend.
    pub fn replica(&self, id: NodeId, backend: BackendId) -> Option<Place> {
        self.replicas.get(&(id, backend)).copied()
    }

    /// The place where `backend` finds the result of `value`: its own or that of a copy.
    pub fn place_on(&self, value: &Node, backend: BackendId) -> Option<Place> {
        match value.backend == Some(backend) {
            true => self.value(value.id),
            false => self.replica(value.id, backend),
        }
    }

    /// Bytes of all buffers on `backend`.
    pub fn bytes_on(&self, backend: BackendId) -> usize {
        self.buffers.iter().filter(|buffer| buffer.backend == backend).map(|buffer| buffer.bytes).sum()
    }

    #[cfg(test)]
    pub(crate) fn set_value(&mut self, id: NodeId, place: Place) {
        self.values[id.index()] = Some(place);
    }
}

/// `bytes` rounded up to a size class: eight classes per power of two, none smaller than 256 bytes.
pub fn size_class(bytes: usize) -> usize {
    const MIN: usize = 256;
    if bytes <= MIN {
        return MIN;
    }
    let step = (1usize << (bytes - 1).ilog2()) / 8;
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// Who reads each value, counted over executed nodes and attributed to roots.
struct Uses {
    n_reads: Vec<usize>,
    /// Last reader on any backend: until then the value may still have to be copied.
    last: Vec<Option<NodeId>>,
    last_on: HashMap<(NodeId, BackendId), NodeId>,
    pinned: Vec<bool>,
}

impl Uses {
    fn of(graph: &Graph, live: &Liveness) -> Uses {
        let n = graph.nodes.len();
        let (n_reads, last, pinned) = (vec![0; n], vec![None; n], vec![false; n]);
        let mut uses = Uses { n_reads, last, last_on: HashMap::new(), pinned };
        for node in live.executed(graph) {
            let Some(backend) = node.backend else { continue };
            for &src in &node.src {
                let root = live.root(src).value;
                uses.n_reads[root.index()] += 1;
                uses.last[root.index()] = Some(node.id);
                uses.last_on.insert((root, backend), node.id);
            }
        }
        for node in graph.nodes.iter().filter(|node| live.role(node.id) == Role::Input) {
            uses.pinned[node.id.index()] = true;
        }
        for &output in &graph.outputs {
            uses.pinned[live.root(output).value.index()] = true;
        }
        uses
    }
}

/// The linear scan.
struct Planner<'a> {
    graph: &'a Graph,
    live: &'a Liveness,
    uses: Uses,
    plan: Plan,
    /// For every buffer: the node after which it is free, or nothing if it is free or kept for good.
    until: Vec<Option<NodeId>>,
    free: Vec<usize>,
}

impl<'a> Planner<'a> {
    fn new(graph: &'a Graph, live: &'a Liveness, uses: Uses) -> Planner<'a> {
        let values = vec![None; graph.nodes.len()];
        let plan = Plan { buffers: Vec::new(), values, replicas: HashMap::new() };
        Planner { graph, live, uses, plan, until: Vec::new(), free: Vec::new() }
    }

    fn run(&mut self, schedule: &Schedule) {
        let (graph, live) = (self.graph, self.live);
        for node in graph.nodes.iter().filter(|node| live.role(node.id) == Role::Input) {
            if let Some(backend) = node.backend {
                let place = self.take(backend, value_bytes(node));
                self.settle(node.id, place);
            }
        }
        for split in schedule.splits() {
            for copy in schedule.copies_before(split.id) {
                let place = self.take(copy.to, copy.bytes);
                self.plan.replicas.insert((copy.value, copy.to), place);
                self.until[place.buffer] = self.uses.last_on.get(&(copy.value, copy.to)).copied();
            }
            for &id in schedule.nodes(split) {
                let node = graph.node(id);
                if node.op.storage() == Storage::Buffer {
                    let taken_over = self.in_place(node);
                    let place = taken_over.unwrap_or_else(|| self.take(split.backend, value_bytes(node)));
                    self.settle(id, place);
                }
                self.release(id);
            }
        }
    }

    /// `value` lies at `place` until its last reader is done; for good if it is pinned.
    fn settle(&mut self, value: NodeId, place: Place) {
        self.plan.values[value.index()] = Some(place);
        self.until[place.buffer] = match self.uses.pinned[value.index()] {
            true => None,
            false => Some(self.uses.last[value.index()].unwrap_or(value)),
        };
    }

    /// The place of the source that `node` may overwrite.
    fn in_place(&self, node: &Node) -> Option<Place> {
        let src = *node.src.get(node.op.in_place()?)?;
        let root = self.live.root(src);
        let value = self.graph.node(root.value);
        let sole = self.uses.n_reads[value.id.index()] == 1 && !self.uses.pinned[value.id.index()];
        let here = value.backend == node.backend && value.op.storage() == Storage::Buffer;
        let fits = root.offset_bytes == 0 && value_bytes(node) <= value_bytes(value);
        if sole && here && fits { self.plan.value(value.id) } else { None }
    }

    fn take(&mut self, backend: BackendId, bytes: usize) -> Place {
        let size = |index: usize| self.plan.buffers[index].bytes;
        let on_backend =
            || self.free.iter().copied().filter(|&index| self.plan.buffers[index].backend == backend);
        let fitting =
            on_backend().filter(|&index| size(index) >= bytes).min_by_key(|&index| (size(index), index));
        let chosen = fitting.or_else(|| on_backend().max_by_key(|&index| (size(index), index)));
        let buffer = match chosen {
            Some(index) => {
                self.free.retain(|&other| other != index);
                let buffer = &mut self.plan.buffers[index];
                buffer.bytes = buffer.bytes.max(bytes);
                index
            }
            None => {
                self.plan.buffers.push(PlannedBuffer { backend, bytes });
                self.until.push(None);
                self.plan.buffers.len() - 1
            }
        };
        Place { buffer }
    }

    /// Frees what nobody reads after `done`.
    fn release(&mut self, done: NodeId) {
        for (index, until) in self.until.iter_mut().enumerate() {
            if until.is_some_and(|last| last <= done) {
                *until = None;
                self.free.push(index);
            }
        }
    }

    fn finish(self) -> Plan {
        let mut plan = self.plan;
        for buffer in &mut plan.buffers {
            buffer.bytes = size_class(buffer.bytes);
        }
        plan
    }
}
