//! What a check has found.

use std::fmt;

use super::{Difference, Element, NodeClass};
use crate::graph::OpKind;

/// What a check has found.
#[derive(Clone, PartialEq, Debug)]
pub struct VerifyReport {
    /// Nodes that were compared, in the order in which their kinds first ran.
    pub ops: Vec<OpReport>,
    /// Nodes that the tested backend does not run, and how many there are; in a real run they are on the CPU.
    pub skipped: Vec<(Skipped, usize)>,
    /// The first node out of tolerance.
    pub first_failure: Option<NodeFailure>,
    /// The model with and without fused nodes.
    pub fusion: FusionReport,
    /// The model as a whole.
    pub logits: LogitsReport,
}

/// All nodes of one class.
#[derive(Clone, PartialEq, Debug)]
pub struct OpReport {
    /// What they have in common.
    pub class: NodeClass,
    /// How many were compared.
    pub n: usize,
    /// The largest differences.
    pub difference: Difference,
}

impl OpReport {
    /// True if no node is out of tolerance.
    pub fn passed(&self) -> bool {
        self.difference.relative <= self.class.tolerance
    }
}

/// Nodes that were not compared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Skipped {
    /// Their op.
    pub op: OpKind,
    /// Why.
    pub reason: String,
}

/// A node out of tolerance.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeFailure {
    /// When it ran.
    pub step: String,
    /// Its name.
    pub node: String,
    /// Its op and tolerance.
    pub class: NodeClass,
    /// How far off it is.
    pub difference: Difference,
}

impl fmt::Display for NodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeFailure { step, node, class, difference: Difference { relative, at, .. } } = self;
        let Element { index, expected, got } = at;
        write!(
            f,
            "{step}: node {node} ({:?}): relative difference: expected at most {:.1e}, got {relative:.1e} \
             (element {index}: expected {expected}, got {got})",
            class.op, class.tolerance
        )
    }
}

/// The model with and without fused nodes: the logits have to be the same bits.
#[derive(Clone, PartialEq, Debug)]
pub struct FusionReport {
    /// Fused nodes in the graph of a decode step; 0 if the backend has none.
    pub n_nodes: usize,
    /// Steps that were compared; the first one is the prompt.
    pub n_steps: usize,
    /// The first step and element that differ; expected is without fused nodes.
    pub first_difference: Option<(usize, Element)>,
}

/// The tested model's logits beside the reference's.
#[derive(Clone, PartialEq, Debug)]
pub struct LogitsReport {
    /// Steps that were compared; the first one is the prompt.
    pub n_steps: usize,
    /// Steps in which both find the same token most likely.
    pub n_same_token: usize,
    /// The largest differences.
    pub difference: Difference,
    /// The largest relative difference allowed.
    pub tolerance: f32,
}

impl LogitsReport {
    /// True if they are near enough.
    pub fn passed(&self) -> bool {
        self.difference.relative <= self.tolerance
    }
}

impl VerifyReport {
    /// The first thing that is wrong, in one line; `None` if nothing is.
    pub fn failure(&self) -> Option<String> {
        if let Some(failure) = &self.first_failure {
            return Some(failure.to_string());
        }
        if self.ops.is_empty() {
            return Some("nodes compared: expected at least one, got none".to_string());
        }
        if let Some((step, Element { index, expected, got })) = self.fusion.first_difference {
            return Some(format!(
                "step {step}: logit {index} with fused nodes: expected {expected:e} as without, got {got:e}"
            ));
        }
        let LogitsReport { difference, tolerance, .. } = &self.logits;
        let Difference { relative, at: Element { index, expected, got }, .. } = difference;
        (!self.logits.passed()).then(|| {
            format!(
                "logits: relative difference: expected at most {tolerance:.1e}, got {relative:.1e} \
                 (logit {index}: expected {expected}, got {got})"
            )
        })
    }
}
