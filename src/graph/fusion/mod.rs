//! Fusion: local substitutions that some backend computes in one kernel.
//!
//! The pass runs exactly once per build, right after assignment, on every path. Each rule is a file: a pattern, its
//! replacement, and the [`FusedOp`] that the node's *assigned* backend must claim. A rule gives the node another op
//! and other sources; ids, names, shapes, backends and the number of nodes stay. What lost its last reader is an
//! orphan. Rewrites are collected over the whole graph first and applied afterwards, and no pattern matches a fused
//! op, so a second run would find nothing.

mod swiglu;

use super::{BackendSet, FusedOp, Graph, Node, NodeId, Op};

/// What a rule found at a node.
struct Match {
    op: Op,
    src: Vec<NodeId>,
}

/// A rule: the fusion it makes, and its pattern.
struct Rule {
    makes: FusedOp,
    find: fn(&Graph, &Node) -> Option<Match>,
}

const RULES: [Rule; 1] = [Rule { makes: FusedOp::SwiGLU, find: swiglu::find }];

/// Applies all rules; returns the nodes that were rewritten. Nodes without a backend are left alone.
pub fn fuse(graph: &mut Graph, set: &BackendSet) -> Vec<NodeId> {
    let mut found = Vec::new();
    for node in &graph.nodes {
        let Some(backend) = node.backend.and_then(|id| set.get(id)) else { continue };
        let claimed = RULES.iter().filter(|rule| backend.supports_fused(rule.makes));
        if let Some(rewrite) = claimed.into_iter().find_map(|rule| (rule.find)(graph, node)) {
            found.push((node.id, rewrite));
        }
    }
    let ids = found.iter().map(|(id, _)| *id).collect();
    for (id, Match { op, src }) in found {
        let node = &mut graph.nodes[id.index()];
        node.op = op;
        node.src = src;
    }
    ids
}
