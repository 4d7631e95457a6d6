//! Runs a plan on paper: every buffer remembers which value was put there last.
//!
//! This knows nothing of how the plan was made; it reads only where the plan says that each value is.

use crate::graph::liveness::value_bytes;
use crate::graph::{
    BackendId, Graph, GraphError, Liveness, Node, NodeId, Place, Plan, Role, Schedule, Stage, Storage,
};

/// The rules of allocation.
pub(crate) fn memory(
    graph: &Graph,
    live: &Liveness,
    schedule: &Schedule,
    plan: &Plan,
) -> Result<(), GraphError> {
    let mut paper = Paper { graph, live, plan, holds: vec![None; plan.buffers().len()] };
    for node in graph.nodes.iter().filter(|node| live.role(node.id) == Role::Input) {
        paper.put(node, node)?;
    }
    for split in schedule.splits() {
        for copy in schedule.copies_before(split.id) {
            let value = graph.node(copy.value);
            paper.expect(value, copy.value, copy.from)?;
            let place = plan.replica(copy.value, copy.to);
            paper.put_at(value, value, place, copy.to)?;
        }
        for &id in schedule.nodes(split) {
            let node = graph.node(id);
            for &src in &node.src {
                paper.expect(node, src, split.backend)?;
            }
            paper.put(node, node)?;
        }
    }
    let kept = graph.nodes.iter().filter(|node| live.role(node.id) == Role::Input).map(|node| node.id);
    for id in kept.chain(graph.outputs.iter().copied()) {
        let root = graph.node(live.root(id).value);
        if let Some(backend) = root.backend {
            paper.expect(graph.node(id), id, backend)?;
        }
    }
    Ok(())
}

struct Paper<'a> {
    graph: &'a Graph,
    live: &'a Liveness,
    plan: &'a Plan,
    holds: Vec<Option<NodeId>>,
}

impl Paper<'_> {
    /// `value` is written to its own place.
    fn put(&mut self, node: &Node, value: &Node) -> Result<(), GraphError> {
        if let (Storage::Buffer, Some(backend)) = (value.op.storage(), value.backend) {
            let place = self.plan.value(value.id);
            self.put_at(node, value, place, backend)?;
        }
        Ok(())
    }

    fn put_at(
        &mut self,
        node: &Node,
        value: &Node,
        place: Option<Place>,
        backend: BackendId,
    ) -> Result<(), GraphError> {
        let place = self.checked(node, value, place, backend)?;
        self.holds[place.buffer] = Some(value.id);
        Ok(())
    }

    /// `node` finds the value of `src` on `backend`.
    fn expect(&self, node: &Node, src: NodeId, backend: BackendId) -> Result<(), GraphError> {
        let root = self.graph.node(self.live.root(src).value);
        if root.op.storage() != Storage::Buffer {
            return Ok(());
        }
        let place = self.checked(node, root, self.plan.place_on(root, backend), backend)?;
        match self.holds[place.buffer] {
            Some(holds) if holds == root.id => Ok(()),
            other => {
                let what = format!("buffer {} on {backend}", place.buffer);
                let got = other.map_or("nothing".to_owned(), |id| self.graph.node(id).name.clone());
                Err(GraphError::verify(Stage::Allocate, node, what, &root.name, got))
            }
        }
    }

    fn checked(
        &self,
        node: &Node,
        value: &Node,
        place: Option<Place>,
        backend: BackendId,
    ) -> Result<Place, GraphError> {
        let broken = |expected: String, got: String| {
            let what = format!("place of {} on {backend}", value.name);
            GraphError::verify(Stage::Allocate, node, what, expected, got)
        };
        let place = place.ok_or_else(|| broken("a buffer".into(), "none".into()))?;
        let buffer = &self.plan.buffers()[place.buffer];
        if buffer.backend != backend {
            return Err(broken(format!("a buffer on {backend}"), format!("one on {}", buffer.backend)));
        }
        let bytes = value_bytes(value);
        if bytes > buffer.bytes {
            return Err(broken(format!("{bytes} bytes"), format!("{} bytes", buffer.bytes)));
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{
        CParams, GetRows, GraphBuilder, GraphParams, GraphType, InputKind, KvFormat, Scale, WeightRef,
    };
    use crate::tensor::{DType, Shape};

    /// `x`, `y` and `z = x * 2`, of which `y` and `z` are read.
    fn graph() -> Graph {
        let cparams = CParams {
            n_ctx: 32,
            n_seq_max: 1,
            flash_attn: true,
            gpu: false,
            fuse_qkv: false,
            fuse_ffn: false,
            gpu_layers: 0,
            kv_format: KvFormat::F32,
            backends: 1,
        };
        let params =
            GraphParams { n_tokens: 2, n_out: 2, gtype: GraphType::Prefill, cparams, weights_version: 0 };
        let mut g = GraphBuilder::new(params);
        let ids = g.input(InputKind::TokenIds);
        let table = WeightRef { name: "w".into(), shape: Shape::d2(8, 9), dtype: DType::F32 };
        let x = g.node("x", GetRows, &[ids], &[&table]);
        let y = g.node("y", GetRows, &[ids], &[&table]);
        let z = g.node("z", Scale { factor: 2.0 }, &[x], &[]);
        g.output(y);
        g.output(z);
        let mut graph = g.finish().expect("the graph is right");
        graph.nodes.iter_mut().for_each(|node| node.backend = Some(BackendId::CPU));
        graph
    }

    fn verdict(spoil: impl FnOnce(&mut Plan)) -> Result<(), String> {
        let graph = graph();
        let live = Liveness::of(&graph);
        let schedule = Schedule::of(&graph, &live);
        let mut plan = Plan::of(&graph, &live, &schedule);
        spoil(&mut plan);
        memory(&graph, &live, &schedule, &plan).map_err(|error| error.to_string())
    }

    fn share(plan: &mut Plan, from: u32, to: u32) {
        let place = plan.value(NodeId(from)).expect("it has a place");
        plan.set_value(NodeId(to), place);
    }

    #[test]
    fn a_right_plan_passes() {
        assert_eq!(verdict(|_| ()), Ok(()));
    }

    #[test]
    fn a_value_that_is_overwritten_before_it_is_read_is_found() {
        let message = verdict(|plan| share(plan, 1, 2)).expect_err("y overwrites x");
        assert_eq!(message, "graph after allocation: node z (Scale): buffer 1 on CPU: expected x, got y");
    }

    #[test]
    fn an_output_that_is_overwritten_is_found() {
        let message = verdict(|plan| share(plan, 2, 3)).expect_err("z overwrites y");
        assert_eq!(message, "graph after allocation: node y (GetRows): buffer 2 on CPU: expected y, got z");
    }

    #[test]
    fn an_input_that_is_overwritten_is_found() {
        let message = verdict(|plan| share(plan, 0, 3)).expect_err("z overwrites the ids");
        assert_eq!(
            message,
            "graph after allocation: node token_ids (Input): buffer 0 on CPU: expected token_ids, got z"
        );
    }
}
