//! The graph as Graphviz DOT: a cluster per block and backend, data flowing down.
//!
//! Inputs are ellipses, aliases are dashed, orphans are grey and dotted. Colours tell backends apart.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::{BackendId, Graph, Liveness, Node, Role};

/// Fill colours by backend id, light enough for black text.
const FILLS: [&str; 6] = ["#dbe9f6", "#fde0c5", "#d9f0d3", "#eadcf4", "#fdf3c0", "#f6d5dc"];

impl Graph {
    /// A DOT document.
    pub fn to_dot(&self) -> String {
        let mut dot = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_dot(&mut dot);
        dot
    }

    fn write_dot(&self, out: &mut impl Write) -> fmt::Result {
        let live = Liveness::of(self);
        writeln!(out, "digraph minfer {{")?;
        writeln!(out, "  rankdir=TB; node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];")?;
        let mut clusters: BTreeMap<(Option<u32>, Option<BackendId>), Vec<&Node>> = BTreeMap::new();
        for node in &self.nodes {
            clusters.entry((node.layer, node.backend)).or_default().push(node);
        }
        for (index, ((layer, backend), nodes)) in clusters.into_iter().enumerate() {
            // What belongs to no block is left outside, so that it flows above and below the blocks.
            if layer.is_some() {
                writeln!(out, "  subgraph cluster_{index} {{ label={};", quoted(&title(layer, backend)))?;
            }
            nodes.iter().try_for_each(|node| write_node(out, node, live.role(node.id)))?;
            if layer.is_some() {
                writeln!(out, "  }}")?;
            }
        }
        for node in &self.nodes {
            let style = if live.role(node.id) == Role::Orphan { " [style=dotted]" } else { "" };
            node.src.iter().try_for_each(|src| writeln!(out, "  n{} -> n{}{style};", src.0, node.id.0))?;
        }
        for output in &self.outputs {
            writeln!(
                out,
                "  out{0} [shape=plaintext, style=\"\", label=\"output\"]; n{0} -> out{0};",
                output.0
            )?;
        }
        writeln!(out, "}}")
    }
}

fn title(layer: Option<u32>, backend: Option<BackendId>) -> String {
    let backend = backend.map_or(String::new(), |backend| format!(" on {backend}"));
    layer.map_or(String::new(), |layer| format!("block {layer}{backend}"))
}

fn write_node(out: &mut impl Write, node: &Node, role: Role) -> fmt::Result {
    let backend = node.backend.map_or(String::new(), |backend| format!(" @{backend}"));
    let label = format!("{}\n{} {}{backend}", node.name, node.op.name(), node.shape);
    let fill = match (role, node.backend) {
        (Role::Orphan, _) | (_, None) => "#eeeeee",
        (_, Some(backend)) => FILLS[backend.0 as usize % FILLS.len()],
    };
    let look = match role {
        Role::Executed => "",
        Role::Input => ", shape=ellipse",
        Role::Alias => ", style=\"filled,dashed\"",
        Role::Orphan => ", style=\"filled,dotted\", fontcolor=\"#888888\"",
    };
    let tip = format!("{:?}", node.op.payload());
    let (label, tip) = (quoted(&label), quoted(&tip));
    writeln!(out, "  n{} [label={label}, tooltip={tip}, fillcolor=\"{fill}\"{look}];", node.id.0)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
