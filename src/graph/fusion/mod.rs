//! Fusion: local substitutions that some backend computes in one kernel.
//!
//! The pass runs exactly once per build, right after assignment, on every path. Each rule is a file: a
//! pattern, its replacement, and the [`FusedOp`] that the node's *assigned* backend must claim. A rule gives
//! the node another op, other sources and other weights; ids, names, shapes, backends and the number of nodes
//! stay. What lost its last reader is an orphan. Rewrites are collected over the whole graph first and
//! applied afterwards, and no pattern matches a fused op, so a second run would find nothing.

mod mat_mul_add;
mod swiglu;

use super::{BackendSet, FusedOp, Graph, Node, NodeId, NodeMeta, Op};

/// What a rule found at a node.
struct Match {
    op: Op,
    src: Vec<NodeId>,
    meta: NodeMeta,
}

/// A rule: the fusion it makes, and its pattern.
struct Rule {
    makes: FusedOp,
    find: fn(&Readers, &Node) -> Option<Match>,
}

const RULES: [Rule; 2] = [
    Rule { makes: FusedOp::SwiGLU, find: swiglu::find },
    Rule { makes: FusedOp::MatMulAdd, find: mat_mul_add::find },
];

/// A graph before any rewrite, and how often each result is read: by sources of nodes and by the caller.
struct Readers<'a> {
    graph: &'a Graph,
    n_reads: Vec<usize>,
}

impl<'a> Readers<'a> {
    fn of(graph: &'a Graph) -> Readers<'a> {
        let mut n_reads = vec![0; graph.nodes.len()];
        for id in graph.nodes.iter().flat_map(|node| &node.src).chain(&graph.outputs) {
            n_reads[id.index()] += 1;
        }
        Readers { graph, n_reads }
    }

    fn node(&self, id: NodeId) -> &'a Node {
        self.graph.node(id)
    }

    fn is_read_once(&self, id: NodeId) -> bool {
        self.n_reads[id.index()] == 1
    }
}

/// Applies all rules; returns the nodes that were rewritten. Nodes without a backend are left alone.
pub fn fuse(graph: &mut Graph, set: &BackendSet) -> Vec<NodeId> {
    let mut found = Vec::new();
    let readers = Readers::of(graph);
    for node in &graph.nodes {
        let Some(backend) = node.backend else { continue };
        let claimed = RULES.iter().filter(|rule| set.fuses(backend, rule.makes));
        if let Some(rewrite) = claimed.into_iter().find_map(|rule| (rule.find)(&readers, node)) {
            found.push((node.id, rewrite));
        }
    }
    let ids = found.iter().map(|(id, _)| *id).collect();
    for (id, Match { op, src, meta }) in found {
        let node = &mut graph.nodes[id.index()];
        node.op = op;
        node.src = src;
        node.meta = meta;
    }
    ids
}
