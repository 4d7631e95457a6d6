//! Graphs of one op, and the backends that they run on.

use std::sync::{Arc, OnceLock};

use minfer::backends::builtin;
use minfer::backends::cpu::{CpuBackend, CpuOptions};
use minfer::graph::{
    Backend, BackendId, BackendSet, BuiltBackend, CParams, Device, Executable, GetRows, GraphBuilder,
    GraphParams, GraphType, InputKind, Inputs, KvFormat, NodeId, Op, OpKind, OpenDevice, Policy, Reshape,
    WeightRef,
};
use minfer::tensor::{Shape, Tensor, TensorMap};
use minfer::threads::ThreadPool;
use minfer::vec_ops::Isa;

/// A backend under test.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) id: BackendId,
    pub(crate) make: Box<dyn Fn(Arc<TensorMap>) -> Box<dyn Backend>>,
}

/// Every backend in the build; the CPU's once per instruction set and with one and several threads.
pub(crate) fn targets() -> Vec<Target> {
    let mut targets = Vec::new();
    for isa in Isa::available() {
        for n_threads in [1, 3] {
            targets.push(Target::cpu(isa, n_threads));
        }
    }
    targets.extend(devices());
    targets
}

/// Every backend in the build that has a device.
pub(crate) fn devices() -> Vec<Target> {
    builtin().backends().iter().filter_map(Target::device).collect()
}

pub(crate) fn cpu(weights: Arc<TensorMap>, isa: Isa, n_threads: usize) -> CpuBackend {
    let pool = Arc::new(ThreadPool::new(n_threads).unwrap());
    CpuBackend::new(CpuOptions { weights, pool, isa })
}

impl Target {
    pub(crate) fn cpu(isa: Isa, n_threads: usize) -> Target {
        Target {
            name: format!("CPU, {}, {n_threads} threads", isa.name()),
            id: BackendId::CPU,
            make: Box::new(move |weights| Box::new(cpu(weights, isa, n_threads))),
        }
    }

    /// A device with its backend; `None` for the CPU.
    pub(crate) fn device(built: &BuiltBackend) -> Option<Target> {
        Target::device_with_groups(built, &[])
    }

    /// [`Target::device`], with weights that are to lie one after the other.
    pub(crate) fn device_with_groups(built: &BuiltBackend, groups: &[Vec<String>]) -> Option<Target> {
        let (open, groups) = (built.open?, groups.to_vec());
        // Opened once for all cases, so that no kernel is compiled twice.
        static KEPT: OnceLock<Arc<dyn Device>> = OnceLock::new();
        KEPT.get_or_init(|| open_device(open));
        let make = move |weights: Arc<TensorMap>| {
            let device = open_device(open);
            let names = weights.iter().map(|(name, _)| name.to_owned()).collect();
            device.upload(&weights, &names, &groups).expect("the weights fit");
            device.backend().expect("the device works")
        };
        Some(Target { name: built.known.label.to_owned(), id: built.known.id, make: Box::new(make) })
    }

    /// The target, with the CPU beside it for what the target does not claim.
    pub(crate) fn backends(&self, weights: &Arc<TensorMap>) -> BackendSet {
        let mut set = BackendSet::new();
        set.insert(BackendId::CPU, Box::new(cpu(Arc::clone(weights), Isa::best(), 1)));
        set.insert(self.id, (self.make)(Arc::clone(weights)));
        set
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy::new(&builtin(), self.id.bit() | BackendId::CPU.bit(), usize::MAX, 1)
    }
}

/// The ops that the kernel table of the build's devices has.
pub(crate) fn device_ops() -> Vec<OpKind> {
    #[cfg(feature = "gpu")]
    return minfer::backends::gpu::ops().collect();
    #[cfg(not(feature = "gpu"))]
    Vec::new()
}

/// Fails if a node does not run on the device under test although its kernel table has the op. For the CPU
/// nothing is checked, as everything runs there.
pub(crate) fn expect_on_target(executable: &Executable, target: BackendId) {
    let known = device_ops();
    for node in &executable.graph().nodes {
        let on_device = target == BackendId::CPU || known.contains(&node.op.kind());
        let expected = if on_device { target } else { BackendId::CPU };
        assert_eq!(node.backend, Some(expected), "{} ({}) runs elsewhere", node.name, node.op.name());
    }
}

fn open_device(open: OpenDevice) -> Arc<dyn Device> {
    open().unwrap_or_else(|error| {
        panic!("{error}\n`cargo xtask setup` installs a software device where it can")
    })
}

/// Params of a graph of `n_tokens` with room for a few short sequences.
pub(crate) fn params(n_tokens: usize, format: KvFormat) -> GraphParams {
    let gtype = if n_tokens == 1 { GraphType::Decode } else { GraphType::Prefill };
    let cparams = CParams {
        n_ctx: 4096,
        n_seq_max: 4,
        flash_attn: true,
        gpu: false,
        fuse_qkv: false,
        fuse_ffn: false,
        gpu_layers: 0,
        kv_format: format,
        backends: u32::MAX,
    };
    GraphParams { n_tokens, n_out: n_tokens, gtype, cparams, weights_version: 0 }
}

/// Numbers between -2 and 2 without a pattern; each seed has its own.
pub(crate) fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_769).wrapping_add(12_345);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 22) as f32 - 2.0
    };
    (0..n).map(|_| next()).collect()
}

pub(crate) fn f64s(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// A graph under construction. Values enter as rows of weight tables, picked by `token_ids` 0, 1, 2 …
pub(crate) struct Case {
    pub(crate) builder: GraphBuilder,
    pub(crate) weights: TensorMap,
    n_tokens: usize,
    n_names: usize,
}

impl Case {
    pub(crate) fn new(n_tokens: usize) -> Case {
        let builder = GraphBuilder::new(params(n_tokens, KvFormat::F32));
        Case { builder, weights: TensorMap::default(), n_tokens, n_names: 0 }
    }

    pub(crate) fn weight(&mut self, tensor: Tensor) -> WeightRef {
        let name = self.next_name("weight");
        let weight = WeightRef { name: name.as_str().into(), shape: tensor.shape, dtype: tensor.dtype };
        self.weights.insert(&name, tensor);
        weight
    }

    /// A value of `shape`, whose elements are a multiple of `n_tokens`.
    pub(crate) fn value(&mut self, shape: Shape, elements: &[f32]) -> NodeId {
        let rows = Shape::d2(elements.len() / self.n_tokens, self.n_tokens);
        let table = self.weight(Tensor::from_f32(rows, elements));
        let ids = self.builder.input(InputKind::TokenIds);
        let rows = self.apply(GetRows, &[ids], &[&table]);
        if self.builder.spec(rows).shape == shape {
            rows
        } else {
            self.apply(Reshape { shape }, &[rows], &[])
        }
    }

    pub(crate) fn apply(&mut self, op: impl Into<Op>, srcs: &[NodeId], weights: &[&WeightRef]) -> NodeId {
        let op = op.into();
        let name = self.next_name(op.name());
        self.builder.node(name, op, srcs, weights)
    }

    fn next_name(&mut self, kind: &str) -> String {
        self.n_names += 1;
        format!("{kind}.{}", self.n_names)
    }

    /// Runs the graph on every backend; `result` must be within `tolerance` of `expected`, relative to 1 or
    /// to the expected value.
    pub(crate) fn expect(self, result: NodeId, positions: &[i32], expected: &[f64], tolerance: f64) {
        for (name, got) in self.run(result, positions) {
            assert_eq!(got.len(), expected.len(), "{name}");
            for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
                let error = (f64::from(*got) - expected).abs() / expected.abs().max(1.0);
                assert!(error <= tolerance, "{name}: element {i}: expected {expected}, got {got}");
            }
        }
    }

    /// The result on every backend.
    pub(crate) fn run(self, result: NodeId, positions: &[i32]) -> Vec<(String, Vec<f32>)> {
        self.run_on(targets(), result, positions)
    }

    /// The result on these backends.
    pub(crate) fn run_on(
        mut self,
        targets: Vec<Target>,
        result: NodeId,
        positions: &[i32],
    ) -> Vec<(String, Vec<f32>)> {
        self.builder.output(result);
        let graph = self.builder.finish().unwrap();
        let weights = Arc::new(self.weights);
        let token_ids: Vec<i32> = (0..self.n_tokens as i32).collect();
        let run_on = |target: Target| {
            let mut set = target.backends(&weights);
            let mut executable = Executable::compile(graph.clone(), &mut set, &target.policy()).unwrap();
            expect_on_target(&executable, target.id);
            let inputs = Inputs { token_ids: &token_ids, positions, ..Inputs::default() };
            executable.run(&mut set, &inputs, &mut ()).unwrap();
            let mut got = Vec::new();
            executable.read_output(&mut set, 0, &mut got).unwrap();
            (target.name, got)
        };
        targets.into_iter().map(run_on).collect()
    }
}
