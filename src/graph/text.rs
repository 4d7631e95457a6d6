//! The graph as text, one line per node: the canonical form, made for reading and for golden tests.
//!
//! ```text
//! %6 blk.0.attn_q = MatMul { bias: true, activations: Bits16 } %4 {blk.0.attn_q.weight Q4_K, blk.0.attn_q.bias F32} : [896, 4] F32 @CPU
//! %9 blk.0.ffn_act = Silu %8 : [4864, 4] F32 @CPU orphan
//! output %12
//! ```

use std::fmt::{self, Write};

use super::{Graph, Liveness, Node, Role};

impl Graph {
    /// The canonical text: nodes with what becomes of them, then outputs.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, out: &mut impl Write) -> fmt::Result {
        let live = Liveness::of(self);
        for node in &self.nodes {
            write_node(out, node)?;
            match live.role(node.id) {
                Role::Orphan => writeln!(out, " orphan")?,
                Role::Alias => writeln!(out, " alias")?,
                Role::Input | Role::Executed => writeln!(out)?,
            }
        }
        self.outputs.iter().try_for_each(|output| writeln!(out, "output {output}"))
    }
}

fn write_node(out: &mut impl Write, node: &Node) -> fmt::Result {
    write!(out, "{} {} = {:?}", node.id, node.name, node.op.payload())?;
    node.src.iter().try_for_each(|src| write!(out, " {src}"))?;
    if !node.meta.weights.is_empty() {
        let weights = node.meta.weights.iter().map(|weight| format!("{} {}", weight.name, weight.dtype));
        write!(out, " {{{}}}", weights.collect::<Vec<_>>().join(", "))?;
    }
    write!(out, " : {} {}", node.shape, node.dtype)?;
    match node.backend {
        Some(backend) => write!(out, " @{backend}"),
        None => Ok(()),
    }
}
