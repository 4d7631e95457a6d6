//! Which nodes run, and where each value lies: pure functions of a graph.

use super::{Graph, Node, NodeId, Op, Storage};

/// What becomes of a node when the graph runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The caller writes it before every step.
    Input,
    /// A kernel computes it.
    Executed,
    /// It names bytes of another value; nothing runs.
    Alias,
    /// Nothing reads it: it has no buffer and is skipped.
    Orphan,
}

/// A value that has its own place, and where in it a node's result starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The node whose result has the place.
    pub value: NodeId,
    /// Distance from its start in bytes.
    pub offset_bytes: usize,
}

/// Roles and roots of all nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Liveness {
    roles: Vec<Role>,
    roots: Vec<Root>,
}

impl Liveness {
    /// Analyses `graph`. A node lives if it is an output, writes keys and values, or a living node reads it.
    pub fn of(graph: &Graph) -> Liveness {
        let mut alive = vec![false; graph.nodes.len()];
        for &output in &graph.outputs {
            alive[output.index()] = true;
        }
        for node in graph.nodes.iter().rev() {
            alive[node.id.index()] |= node.op.kv_store().is_some();
            if alive[node.id.index()] {
                node.src.iter().for_each(|src| alive[src.index()] = true);
            }
        }
        let roles = graph.nodes.iter().map(|node| role(node, alive[node.id.index()])).collect();
        let mut roots: Vec<Root> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let root = match node.op.storage() {
                Storage::Alias { src, offset_elems } => {
                    let below = roots[node.src[src].index()];
                    let offset_bytes = node.dtype.bytes_for(offset_elems).unwrap_or(0);
                    Root { value: below.value, offset_bytes: below.offset_bytes + offset_bytes }
                }
                Storage::Buffer | Storage::Kv(_) => Root { value: node.id, offset_bytes: 0 },
            };
            roots.push(root);
        }
        Liveness { roles, roots }
    }

    /// What becomes of `id`.
    pub fn role(&self, id: NodeId) -> Role {
        self.roles[id.index()]
    }

    /// Where the result of `id` lies: itself, or what it is an alias of.
    pub fn root(&self, id: NodeId) -> Root {
        self.roots[id.index()]
    }

    /// The nodes that kernels compute, in order.
    pub fn executed<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = &'a Node> {
        graph.nodes.iter().filter(|node| self.role(node.id) == Role::Executed)
    }
}

fn role(node: &Node, alive: bool) -> Role {
    match (alive, &node.op, node.op.storage()) {
        (false, ..) => Role::Orphan,
        (true, Op::Input(_), _) => Role::Input,
        (true, _, Storage::Alias { .. }) => Role::Alias,
        (true, ..) => Role::Executed,
    }
}

/// The layer whose KV regions a node reads or writes, if any.
pub(crate) fn kv_layer(graph: &Graph, node: &Node) -> Option<u32> {
    let own = |node: &Node| match (node.op.storage(), node.op.kv_store()) {
        (Storage::Kv(layer), _) => Some(layer),
        (_, Some(store)) => Some(store.layer),
        _ => None,
    };
    let read = |src: &NodeId| match graph.node(*src).op.storage() {
        Storage::Kv(layer) => Some(layer),
        _ => None,
    };
    own(node).or_else(|| node.src.iter().find_map(read))
}

/// Bytes of a node's result; the builder has checked that they can be counted.
pub(crate) fn value_bytes(node: &Node) -> usize {
    node.dtype.bytes_for(node.shape.n_elems()).unwrap_or(0)
}
