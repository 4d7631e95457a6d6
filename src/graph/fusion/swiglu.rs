//! `Mul(Silu(x), y)` → `SwiGLU(x, y)`, with the operands of `Mul` in either order.
//!
//! A `Silu` that someone else reads too stays alive; it is computed once more inside the fused kernel, which
//! costs less than reading its result back.

use super::{Match, Readers};
use crate::graph::{Node, NodeMeta, Op, SwiGLU};

/// The replacement for `node`, if it is the end of the pattern.
pub(super) fn find(graph: &Readers, node: &Node) -> Option<Match> {
    let (Op::Mul(_), &[a, b]) = (&node.op, node.src.as_slice()) else { return None };
    let gate_of = |id| match &graph.node(id).op {
        Op::Silu(_) => graph.node(id).src.first().copied(),
        _ => None,
    };
    let (gate, up) = match gate_of(a) {
        Some(gate) => (gate, b),
        None => (gate_of(b)?, a),
    };
    Some(Match { op: SwiGLU.into(), src: vec![gate, up], meta: NodeMeta::default() })
}
