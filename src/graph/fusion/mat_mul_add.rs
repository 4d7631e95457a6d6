//! `Add(MatMul(x), r)` → `MatMulAdd(x, r)`, with the operands of `Add` in either order.
//!
//! The product must be read by nothing else: it would have to be computed twice. Of two products that are
//! added, the first is folded in and the second stays the residual.

use super::{Match, Readers};
use crate::graph::{MatMul, MatMulAdd, Node, NodeId, Op};

/// The replacement for `node`, if it is the end of the pattern.
pub(super) fn find(graph: &Readers, node: &Node) -> Option<Match> {
    let (Op::Add(_), &[a, b]) = (&node.op, node.src.as_slice()) else { return None };
    folded(graph, node, a, b).or_else(|| folded(graph, node, b, a))
}

/// `node` as `product` and `residual` in one, if `product` is a product of which nothing else is left.
fn folded(graph: &Readers, node: &Node, product: NodeId, residual: NodeId) -> Option<Match> {
    let source = graph.node(product);
    let Op::MatMul(MatMul { bias, activations }) = source.op else { return None };
    if source.backend != node.backend || !graph.is_read_once(product) {
        return None;
    }
    let op = MatMulAdd { bias, activations };
    Some(Match { op: op.into(), src: vec![*source.src.first()?, residual], meta: source.meta.clone() })
}
