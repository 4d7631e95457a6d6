//! What a null backend says about itself.

use crate::graph::{FusedOp, Fusion, OpKind};

/// The answers of a null backend: ops, fusions, weights.
#[derive(Clone, Debug)]
pub struct Claims {
    pub(super) name: &'static str,
    pub(super) weights_bytes: usize,
    ops: Vec<OpKind>,
    fused: Vec<FusedOp>,
    missing_weights: Vec<String>,
}

impl Claims {
    /// Claims no op, no fusion, and every weight.
    pub fn none(name: &'static str) -> Claims {
        Claims { name, weights_bytes: 0, ops: Vec::new(), fused: Vec::new(), missing_weights: Vec::new() }
    }

    /// What a processor claims: every op that is no fusion, and the fused activation.
    pub fn like_cpu(name: &'static str) -> Claims {
        Claims::none(name).claiming(|fusion| match fusion {
            Fusion::None => true,
            Fusion::ByPass(fused) => fused == FusedOp::SwiGLU,
            Fusion::ByBuilder => false,
        })
    }

    /// What a complete device claims: every op and every fusion.
    pub fn like_device(name: &'static str) -> Claims {
        Claims::none(name).claiming(|_| true)
    }

    /// Claims the ops that come into graphs in a way that `wanted` accepts, and the fusions that make them.
    fn claiming(mut self, wanted: impl Fn(Fusion) -> bool) -> Claims {
        for op in OpKind::ALL.iter().copied().filter(|op| wanted(op.fusion())) {
            self.ops.push(op);
            if let Fusion::ByPass(fused) = op.fusion() {
                self.fused.push(fused);
            }
        }
        self
    }

    /// Claims `ops` too.
    pub fn with(mut self, ops: &[OpKind]) -> Claims {
        self.ops.extend_from_slice(ops);
        self
    }

    /// Does not claim `ops`.
    pub fn without(mut self, ops: &[OpKind]) -> Claims {
        self.ops.retain(|op| !ops.contains(op));
        self
    }

    /// Claims `fused` too.
    pub fn with_fused(mut self, fused: &[FusedOp]) -> Claims {
        self.fused.extend_from_slice(fused);
        self
    }

    /// Claims no fusion of the pass.
    pub fn without_fused(mut self) -> Claims {
        self.fused.clear();
        self
    }

    /// Does not have the weight called `name`.
    pub fn without_weight(mut self, name: &str) -> Claims {
        self.missing_weights.push(name.to_owned());
        self
    }

    /// Holds `bytes` of weights in its own memory.
    pub fn weights_bytes(mut self, bytes: usize) -> Claims {
        self.weights_bytes = bytes;
        self
    }

    pub(super) fn has_op(&self, op: OpKind) -> bool {
        self.ops.contains(&op)
    }

    pub(super) fn has_fused(&self, fused: FusedOp) -> bool {
        self.fused.contains(&fused)
    }

    pub(super) fn has_weight(&self, name: &str) -> bool {
        !self.missing_weights.iter().any(|missing| missing == name)
    }
}
