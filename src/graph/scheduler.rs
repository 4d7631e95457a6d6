//! Splits and copies: who runs which nodes in a row, and which values have to cross before.
//!
//! Both are pure functions of an assigned graph. A split is a maximal run of consecutive executed nodes on one
//! backend. A value that a split reads and that lies on another backend is copied at the split's start, once per
//! destination: later splits there find it.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use super::liveness::value_bytes;
use super::{BackendId, Graph, Liveness, Node, NodeId, Storage};

/// Position of a split in execution order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SplitId(pub u32);

/// A run of nodes on one backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// Its place in execution order.
    pub id: SplitId,
    /// Who runs it.
    pub backend: BackendId,
    /// Its nodes, as positions in [`Schedule::executed`].
    pub nodes: Range<usize>,
}

/// A value that crosses to another backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueCopy {
    /// The node whose result is copied.
    pub value: NodeId,
    /// Where it is computed.
    pub from: BackendId,
    /// Where it is read.
    pub to: BackendId,
    /// The split at whose start it is copied.
    pub before: SplitId,
    /// Its size.
    pub bytes: usize,
}

/// The order of work.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Schedule {
    executed: Vec<NodeId>,
    splits: Vec<Split>,
    copies: Vec<ValueCopy>,
}

impl Schedule {
    /// Plans an assigned graph; nodes without a backend are left out.
    pub fn of(graph: &Graph, live: &Liveness) -> Schedule {
        let mut schedule = Schedule::default();
        let mut known = HashSet::new();
        for node in live.executed(graph) {
            let Some(backend) = node.backend else { continue };
            let before = schedule.append(node.id, backend);
            for &src in &node.src {
                let value = graph.node(live.root(src).value);
                if let Some(from) = crossing(value, backend)
                    && known.insert((value.id, backend))
                {
                    let bytes = value_bytes(value);
                    schedule.copies.push(ValueCopy { value: value.id, from, to: backend, before, bytes });
                }
            }
        }
        schedule
    }

    fn append(&mut self, id: NodeId, backend: BackendId) -> SplitId {
        let end = self.executed.len();
        self.executed.push(id);
        match self.splits.last_mut() {
            Some(split) if split.backend == backend => split.nodes.end = end + 1,
            _ => {
                let id = SplitId(self.splits.len() as u32);
                self.splits.push(Split { id, backend, nodes: end..end + 1 });
            }
        }
        SplitId(self.splits.len() as u32 - 1)
    }

    /// All executed nodes in order.
    pub fn executed(&self) -> &[NodeId] {
        &self.executed
    }

    /// The nodes of `split`.
    pub fn nodes(&self, split: &Split) -> &[NodeId] {
        &self.executed[split.nodes.clone()]
    }

    /// The splits in execution order.
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// The copies in the order in which they are made.
    pub fn copies(&self) -> &[ValueCopy] {
        &self.copies
    }

    /// The copies at the start of split `id`.
    pub fn copies_before(&self, id: SplitId) -> &[ValueCopy] {
        &self.copies[self.copies_range(id)]
    }

    pub(crate) fn copies_range(&self, id: SplitId) -> Range<usize> {
        let start = self.copies.partition_point(|copy| copy.before < id);
        start..self.copies.partition_point(|copy| copy.before <= id)
    }

    /// One line per split: `split 0 backend CPU nodes 295 copies 0 (embd .. logits)`.
    pub fn lines<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = String> + 'a {
        self.splits.iter().map(move |split| {
            let nodes = self.nodes(split);
            let name = |id: Option<&NodeId>| id.map_or("", |id| graph.node(*id).name.as_str());
            let (first, last) = (name(nodes.first()), name(nodes.last()));
            let n_copies = self.copies_before(split.id).len();
            let (id, backend) = (split.id, split.backend);
            format!(
                "split {id} backend {backend} nodes {} copies {n_copies} ({first} .. {last})",
                nodes.len()
            )
        })
    }
}

impl fmt::Display for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where `value` lies, if it has to be copied to be read on `backend`.
fn crossing(value: &Node, backend: BackendId) -> Option<BackendId> {
    value.backend.filter(|from| *from != backend && value.op.storage() == Storage::Buffer)
}
