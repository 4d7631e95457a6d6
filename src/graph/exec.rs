//! The executable: a graph that went through every stage, and its step.

use std::collections::BTreeMap;
use std::ops::Range;

use super::liveness::value_bytes;
use super::set::Lease;
use super::{
    BackendId, BackendSet, Census, Graph, GraphError, InputKind, Inputs, KvShape, Liveness, Node, NodeCall,
    NodeId, NodeSources, NodeValue, Observer, Op, Operand, Place, Plan, Policy, Role, Schedule, Slot, Split,
    Stage, Storage, ValueCopy, assign, fuse, verify,
};

/// A graph with backends, fused nodes, buffers, splits and copies; it runs any number of times. Dropping it
/// gives its buffers back to the pools. Keys and values are the set's and stay.
pub struct Executable {
    graph: Graph,
    live: Liveness,
    schedule: Schedule,
    plan: Plan,
    leases: Vec<Lease>,
    calls: Vec<Call>,
    operands: Vec<Operand>,
    moves: Vec<Move>,
    inputs: Vec<(InputKind, NodeId)>,
    staging: Vec<u8>,
}

/// An executed node with its values resolved.
struct Call {
    node: NodeId,
    srcs: Range<usize>,
    out: Operand,
}

/// A copy with its values resolved.
struct Move {
    from: Operand,
    to: Operand,
}

impl Executable {
    /// Takes a graph through assignment, fusion, allocation and splitting, and checks it after each. Nothing
    /// is allocated before everything has been checked, the memory budgets included.
    pub fn compile(
        mut graph: Graph,
        set: &mut BackendSet,
        policy: &Policy,
    ) -> Result<Executable, GraphError> {
        verify::graph(&graph, Stage::Build)?;
        assign(&mut graph, set, policy);
        verify::graph(&graph, Stage::Assign)?;
        verify::assigned(&graph, set)?;
        fuse(&mut graph, set);
        verify::graph(&graph, Stage::Fuse)?;
        verify::fused(&graph, set)?;
        let live = Liveness::of(&graph);
        let schedule = Schedule::of(&graph, &live);
        let plan = Plan::of(&graph, &live, &schedule);
        verify::memory(&graph, &live, &schedule, &plan)?;
        let leases = allocate(&graph, &live, &plan, set)?;
        let mut executable = Executable {
            graph,
            live,
            schedule,
            plan,
            leases,
            calls: Vec::new(),
            operands: Vec::new(),
            moves: Vec::new(),
            inputs: Vec::new(),
            staging: Vec::new(),
        };
        executable.resolve()?;
        Ok(executable)
    }

    /// The graph as it runs.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What becomes of each node.
    pub fn liveness(&self) -> &Liveness {
        &self.live
    }

    /// Order, splits and copies.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Where each value lies.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The splits in execution order.
    pub fn splits(&self) -> &[Split] {
        self.schedule.splits()
    }

    /// The copies between backends of one step.
    pub fn copies(&self) -> &[ValueCopy] {
        self.schedule.copies()
    }

    /// Nodes counted by op and backend.
    pub fn census(&self) -> Census {
        Census::of(&self.graph, &self.live)
    }

    /// Runs one step. A backend may still be working when this returns; reading an output waits for it. Any
    /// error ends the step and names the node; nothing is tried elsewhere.
    pub fn run(
        &mut self,
        set: &mut BackendSet,
        inputs: &Inputs<'_>,
        observer: &mut dyn Observer,
    ) -> Result<(), GraphError> {
        self.write_inputs(set, inputs)?;
        for split in self.schedule.splits() {
            observer.split_start(split);
            for index in self.schedule.copies_range(split.id) {
                let copy = &self.schedule.copies()[index];
                copy_value(set, self.graph.node(copy.value), copy, &self.moves[index], &mut self.staging)?;
                observer.copied(copy);
            }
            let backend = set.enabled(split.backend)?;
            for call in &self.calls[split.nodes.clone()] {
                let node = self.graph.node(call.node);
                let srcs = &self.operands[call.srcs.clone()];
                observer.node_start(node, &mut NodeSources::new(backend, srcs));
                let done = backend.execute_node(&NodeCall { node, srcs, out: call.out });
                done.map_err(|source| GraphError::at_node(node, split.backend, source))?;
                observer.node_end(node, &mut NodeValue::new(backend, call.out));
            }
            let submitted = backend.submit();
            submitted
                .map_err(|source| GraphError::on_backend("handing over a split", split.backend, source))?;
            observer.split_end(split);
        }
        Ok(())
    }

    /// Reads output `index` (f32) into `out`, which takes its length. Waits for the backend.
    pub fn read_output(
        &self,
        set: &mut BackendSet,
        index: usize,
        out: &mut Vec<f32>,
    ) -> Result<(), GraphError> {
        let n_outputs = self.graph.outputs.len();
        let &id = self.graph.outputs.get(index).ok_or(GraphError::NoOutput { index, n_outputs })?;
        let node = self.graph.node(id);
        let home = self.home(node)?;
        let operand = self.operand(node, home)?;
        out.resize(operand.shape.n_elems(), 0.0);
        read(set, node, home, &operand, bytemuck::cast_slice_mut(out))
    }

    fn write_inputs(&self, set: &mut BackendSet, inputs: &Inputs<'_>) -> Result<(), GraphError> {
        for &(kind, id) in &self.inputs {
            let node = self.graph.node(id);
            let (data, expected) = (inputs.get(kind), node.shape.n_elems());
            if data.len() != expected {
                return Err(GraphError::InputLength { node: kind.name(), expected, got: data.len() });
            }
            let home = self.home(node)?;
            let operand = self.operand(node, home)?;
            write(set, node, home, &operand, bytemuck::cast_slice(data))?;
        }
        Ok(())
    }

    /// Fills in calls, moves and inputs, so that a step looks nothing up.
    fn resolve(&mut self) -> Result<(), GraphError> {
        for split in self.schedule.splits() {
            for &id in self.schedule.nodes(split) {
                let node = self.graph.node(id);
                let start = self.operands.len();
                for &src in &node.src {
                    let operand = self.operand(self.graph.node(src), split.backend)?;
                    self.operands.push(operand);
                }
                let out = self.operand(node, split.backend)?;
                self.calls.push(Call { node: id, srcs: start..self.operands.len(), out });
            }
        }
        for copy in self.schedule.copies() {
            let value = self.graph.node(copy.value);
            let (from, to) = (self.operand(value, copy.from)?, self.operand(value, copy.to)?);
            self.moves.push(Move { from, to });
        }
        let longest = self.schedule.copies().iter().map(|copy| copy.bytes).max();
        self.staging = vec![0; longest.unwrap_or(0)];
        for node in &self.graph.nodes {
            if let (Op::Input(input), Role::Input) = (&node.op, self.live.role(node.id)) {
                self.inputs.push((input.kind, node.id));
            }
        }
        Ok(())
    }

    /// The backend on which the result of `node` lies.
    fn home(&self, node: &Node) -> Result<BackendId, GraphError> {
        let root = self.graph.node(self.live.root(node.id).value);
        root.backend.ok_or_else(|| GraphError::verify(Stage::Assign, root, "backend", "one", "none"))
    }

    /// The result of `node` as `backend` sees it: itself or a copy.
    fn operand(&self, node: &Node, backend: BackendId) -> Result<Operand, GraphError> {
        let root = self.live.root(node.id);
        let value = self.graph.node(root.value);
        let slot = match value.op.storage() {
            Storage::Kv(layer) => Slot::Kv { layer },
            Storage::Buffer | Storage::Alias { .. } => {
                let place = self.plan.place_on(value, backend);
                let missing = || {
                    GraphError::verify(Stage::Allocate, node, format!("place on {backend}"), "one", "none")
                };
                let Place { buffer } = place.ok_or_else(missing)?;
                Slot::Buffer { id: self.leases[buffer].id, offset_bytes: root.offset_bytes }
            }
        };
        Ok(Operand { slot, shape: node.shape, dtype: node.dtype })
    }
}

/// Checks the budgets of all backends, then takes buffers and KV regions.
fn allocate(
    graph: &Graph,
    live: &Liveness,
    plan: &Plan,
    set: &mut BackendSet,
) -> Result<Vec<Lease>, GraphError> {
    let mut kv: BTreeMap<BackendId, Vec<(u32, KvShape)>> = BTreeMap::new();
    for node in live.executed(graph) {
        if let (Some(backend), Some(store)) = (node.backend, node.op.kv_store()) {
            kv.entry(backend).or_default().push((store.layer, store.kv));
        }
    }
    let ids: Vec<BackendId> = set.ids().collect();
    for id in ids {
        let buffers = plan.buffers().iter().filter(|buffer| buffer.backend == id);
        let buffers: Vec<usize> = buffers.map(|buffer| buffer.bytes).collect();
        set.check(id, &buffers, kv.get(&id).map_or(&[], Vec::as_slice))?;
    }
    for (&id, layers) in &kv {
        for &(layer, shape) in layers {
            set.ensure_kv(id, layer, shape)?;
        }
    }
    plan.buffers().iter().map(|buffer| set.lease(buffer.backend, buffer.bytes)).collect()
}

/// Reading waits for the source's work; the destination orders what is written before the kernels that
/// follow. So each copy is waited for once.
fn copy_value(
    set: &mut BackendSet,
    value: &Node,
    copy: &ValueCopy,
    resolved: &Move,
    staging: &mut [u8],
) -> Result<(), GraphError> {
    let staging = &mut staging[..value_bytes(value)];
    read(set, value, copy.from, &resolved.from, staging)?;
    write(set, value, copy.to, &resolved.to, staging)
}

fn read(
    set: &mut BackendSet,
    node: &Node,
    backend: BackendId,
    operand: &Operand,
    out: &mut [u8],
) -> Result<(), GraphError> {
    let Slot::Buffer { id, offset_bytes } = operand.slot else { return Ok(()) };
    let done = set.enabled(backend)?.read(id, offset_bytes, out);
    done.map_err(|source| GraphError::at_node(node, backend, source))
}

fn write(
    set: &mut BackendSet,
    node: &Node,
    backend: BackendId,
    operand: &Operand,
    bytes: &[u8],
) -> Result<(), GraphError> {
    let Slot::Buffer { id, offset_bytes } = operand.slot else { return Ok(()) };
    let done = set.enabled(backend)?.write(id, offset_bytes, bytes);
    done.map_err(|source| GraphError::at_node(node, backend, source))
}
