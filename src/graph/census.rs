//! How many nodes of which op run where.

use std::collections::BTreeMap;
use std::fmt;

use super::{BackendId, Graph, Liveness, OpKind, Role};

/// Node counts by op, backend and role.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Census {
    counts: BTreeMap<(OpKind, Option<BackendId>, Role), usize>,
}

impl Census {
    /// Counts the nodes of `graph`.
    pub fn of(graph: &Graph, live: &Liveness) -> Census {
        let mut census = Census::default();
        for node in &graph.nodes {
            *census.counts.entry((node.op.kind(), node.backend, live.role(node.id))).or_default() += 1;
        }
        census
    }

    /// Nodes of `op` with `role`, on all backends.
    pub fn count(&self, op: OpKind, role: Role) -> usize {
        self.rows().filter(|row| row.op == op && row.role == role).map(|row| row.n).sum()
    }

    /// The counts, in the order of ops, then backends.
    pub fn rows(&self) -> impl Iterator<Item = CensusRow> {
        self.counts.iter().map(|(&(op, backend, role), &n)| CensusRow { op, backend, role, n })
    }
}

/// One count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CensusRow {
    /// The op.
    pub op: OpKind,
    /// The backend; `None` before assignment.
    pub backend: Option<BackendId>,
    /// What becomes of the nodes.
    pub role: Role,
    /// How many there are.
    pub n: usize,
}

impl fmt::Display for CensusRow {
    /// Prints `op SwiGLU backend CPU x24`, with `orphaned` or `alias` at the end for nodes that do not run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op {:?} backend ", self.op)?;
        match self.backend {
            Some(backend) => write!(f, "{backend}")?,
            None => f.write_str("none")?,
        }
        write!(f, " x{}", self.n)?;
        match self.role {
            Role::Input | Role::Executed => Ok(()),
            Role::Alias => f.write_str(" alias"),
            Role::Orphan => f.write_str(" orphaned"),
        }
    }
}

impl fmt::Display for Census {
    /// One line per count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows().try_for_each(|row| writeln!(f, "{row}"))
    }
}
