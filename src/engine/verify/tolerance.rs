//! How far a device may be from the reference, op by op.
//!
//! All tolerances are relative: the largest difference in a row of a result (the values of one token),
//! divided by the largest finite absolute value that the reference has in that row. Both sides work on the
//! same sources, so nothing accumulates from node to node.
//!
//! - *Copies and one operation per element*: both round once, or not at all. One unit in the last place is
//!   1.2e-7.
//! - *Elementwise functions and norms*: an exponential or a reciprocal root is good to a few units on any
//!   device, and a sum of a few thousand squares in another order moves by less than 1e-6.
//! - *Rotations*: angles, their cosines and sines are made in f64 on the host for every backend, so it is two
//!   products and a sum.
//! - *Products with float weights*: sums of a few thousand terms in another order; where terms cancel, an
//!   error in proportion to the terms is a larger one in proportion to the sum.
//! - *Products with block-quantised weights*: the reference keeps 16 bits of its activations per block of 32, a
//!   device may keep all. A step is a 32 512th of the block's largest value, so an element's error has a
//!   deviation of 9e-6 of that value, which is at most 5.7 and usually 2.2 times the block's own deviation. The
//!   largest error of many rows against the largest value of a row is a little more than that, and a few times
//!   more where a row's terms cancel, as with float weights.
//! - *Attention*: scores of a few tens that are off by some 1e-6 of themselves, through an exponential. Keys
//!   and values that a device rounds to f16 in another direction are off by one unit in the last place,
//!   9.8e-4 at worst.
//! - *Logits* of the whole model: every block adds to the error what it makes itself, with deviations that
//!   add up as squares, and all blocks' results are added to the same stream.

use crate::graph::{KvFormat, Node, Op, OpKind};
use crate::models::Weights;

/// Nodes that are held to the same tolerance.
#[derive(Clone, PartialEq, PartialOrd, Debug)]
pub struct NodeClass {
    /// Their op.
    pub op: OpKind,
    /// What distinguishes them within the op, such as `Q4_K`; may be empty.
    pub variant: String,
    /// The largest relative difference allowed.
    pub tolerance: f32,
}

impl NodeClass {
    /// The class of `node` in a context with keys and values in `kv_format`.
    pub(super) fn of(node: &Node, kv_format: KvFormat) -> NodeClass {
        let weight = node.meta.weights.first();
        let (variant, tolerance) = match (&node.op, weight) {
            (Op::MatMul(_) | Op::MatMulAdd(_), Some(weight)) => {
                let tolerance = if weight.dtype.is_quantised() { 1e-3 } else { 1e-4 };
                (weight.dtype.to_string(), tolerance)
            }
            (Op::GetRows(_), Some(weight)) => (weight.dtype.to_string(), 1e-6),
            (Op::GetRows(_), None) => ("of a result".to_string(), 0.0),
            (Op::Attn(_) | Op::KvcacheStore(_), _) => (kv_format.dtype().to_string(), attention(kv_format)),
            (op, _) => (String::new(), plain(op.kind())),
        };
        NodeClass { op: node.op.kind(), variant, tolerance }
    }
}

fn attention(kv_format: KvFormat) -> f32 {
    match kv_format {
        KvFormat::F32 => 2e-4,
        KvFormat::F16 => 2e-3,
        // A value next to the middle between two steps of 1/127 of its block may be rounded either way.
        KvFormat::Q8_0 => 2e-2,
    }
}

/// The tolerance of ops that have only one.
fn plain(op: OpKind) -> f32 {
    use OpKind::*;
    match op {
        Input | GetRows | View | Reshape | Permute | KvcacheStore | KvcacheLoad => 0.0,
        Add | Mul | Scale => 1e-6,
        Silu | SwiGLU | Softmax | RmsNorm | QkNorm | RoPE => 1e-5,
        BatchMatMul | MatMul | MatMulAdd => 1e-4,
        // The reference builds no such nodes.
        Attn | FusedQKV | QkvBiasRopeStore | FusedQkvNorm | FusedFFN => 0.0,
    }
}

/// The tolerance of the logits of a model with these weights.
pub(super) fn logits(weights: &Weights, kv_format: KvFormat) -> f32 {
    let is_quantised = weights.layers.iter().any(|layer| layer.all().iter().any(|w| w.dtype.is_quantised()));
    match (is_quantised, kv_format) {
        (true, _) | (false, KvFormat::Q8_0) => 1e-1,
        (false, KvFormat::F16) => 1e-2,
        (false, KvFormat::F32) => 2e-3,
    }
}
