//! The decode fusions against the chains of nodes that they replace: the same bits on one device.

use std::sync::Arc;

use minfer::backends::builtin;
use minfer::graph::{
    ActivationPrecision, Add, Executable, FusedFFN, FusedQKV, FusedQkvNorm, GraphBuilder, InputKind, Inputs,
    KvFormat, KvShape, KvcacheStore, MatMul, Mul, NodeId, OpKind, QkNorm, QkvBiasRopeStore, RmsNorm, RoPE,
    RopeStyle, Silu, View, WeightRef,
};
use minfer::tensor::{DType, Shape, Tensor, TensorMap};

use crate::cases::mat_mul::weight;
use crate::harness::{Target, params, values};

/// The ops that are compared here.
pub(crate) const OPS: &[OpKind] =
    &[OpKind::FusedQKV, OpKind::QkvBiasRopeStore, OpKind::FusedQkvNorm, OpKind::FusedFFN, OpKind::MatMulAdd];

const N_IN: usize = 256;
const EPS: f32 = 1e-5;

/// A graph of one token whose value `x` `[N_IN, 1]` is row 0 of a table.
struct Chain {
    b: GraphBuilder,
    weights: TensorMap,
    x: NodeId,
}

impl Chain {
    fn new(format: KvFormat) -> Chain {
        let mut b = GraphBuilder::new(params(1, format));
        b.set_layer(Some(0));
        let mut weights = TensorMap::default();
        let table = insert(&mut weights, "x", Tensor::from_f32(Shape::d2(N_IN, 1), &values(N_IN, 9)));
        let ids = b.input(InputKind::TokenIds);
        let x = b.node("x", minfer::graph::GetRows, &[ids], &[&table]);
        Chain { b, weights, x }
    }

    fn matrix(&mut self, name: &str, dtype: DType, n_out: usize) -> WeightRef {
        insert(&mut self.weights, name, weight(dtype, N_IN, n_out))
    }

    fn vector(&mut self, name: &str, n: usize, seed: u32) -> WeightRef {
        insert(&mut self.weights, name, Tensor::from_f32(Shape::d1(n), &values(n, seed)))
    }

    /// What `result` is on the device, by way of `n_fused` nodes of `fused`. Weights of one group lie one
    /// after the other.
    fn run(mut self, result: NodeId, group: &[&str], fused: OpKind, n_fused: usize) -> Vec<f32> {
        self.b.output(result);
        let graph = self.b.finish().unwrap();
        let groups = [group.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
        let target =
            builtin().backends().iter().find_map(|built| Target::device_with_groups(built, &groups)).unwrap();
        let mut set = target.backends(&Arc::new(self.weights));
        let mut executable = Executable::compile(graph, &mut set, &target.policy()).unwrap();
        for node in &executable.graph().nodes {
            assert_eq!(node.backend, Some(target.id), "{}", node.name);
        }
        let found = executable.graph().nodes.iter().filter(|node| node.op.kind() == fused).count();
        assert_eq!(found, n_fused, "{fused:?}");
        let inputs = Inputs { token_ids: &[0], positions: &[77], cells: &[33], ..Inputs::default() };
        executable.run(&mut set, &inputs, &mut ()).unwrap();
        let mut out = Vec::new();
        executable.read_output(&mut set, 0, &mut out).unwrap();
        out
    }
}

fn insert(weights: &mut TensorMap, name: &str, tensor: Tensor) -> WeightRef {
    let weight = WeightRef { name: name.into(), shape: tensor.shape, dtype: tensor.dtype };
    weights.insert(name, tensor);
    weight
}

fn plain() -> MatMul {
    MatMul { bias: false, activations: ActivationPrecision::Bits8 }
}

/// Gate and up of these types, fused or not.
fn ffn(gate: DType, up: DType, normed: bool, fused: bool) -> Vec<f32> {
    const N_FF: usize = 300;
    let mut c = Chain::new(KvFormat::F32);
    let norm = c.vector("norm", N_IN, 3);
    let (gate, up) = (c.matrix("gate", gate, N_FF), c.matrix("up", up, N_FF));
    let x = c.x;
    let result = if fused {
        let (op, weights) = match normed {
            true => (FusedFFN { norm: Some(RmsNorm { eps: EPS }) }, vec![&norm, &gate, &up]),
            false => (FusedFFN { norm: None }, vec![&gate, &up]),
        };
        let both = c.b.node("both", op, &[x], &weights);
        c.b.node("result", View { offset_elems: 0, shape: Shape::d2(N_FF, 1) }, &[both], &[])
    } else {
        let x = if normed { c.b.node("normed", RmsNorm { eps: EPS }, &[x], &[&norm]) } else { x };
        let gate = c.b.node("gate", plain(), &[x], &[&gate]);
        let up = c.b.node("up", plain(), &[x], &[&up]);
        let activated = c.b.node("silu", Silu, &[gate], &[]);
        c.b.node("result", Mul, &[activated, up], &[])
    };
    c.run(result, &["gate", "up"], OpKind::FusedFFN, usize::from(fused))
}

#[test]
fn a_fused_feed_forward_network_has_the_bits_of_its_chain() {
    for (gate, up) in [(DType::Q4K, DType::Q4K), (DType::Q5_0, DType::Q8_0), (DType::F16, DType::F16)] {
        for normed in [false, true] {
            assert_eq!(
                ffn(gate, up, normed, true),
                ffn(gate, up, normed, false),
                "{gate} {up} normed: {normed}"
            );
        }
    }
}

/// Rotated Q after a product of Q, K and V of these types, fused or not.
fn queries(
    types: [DType; 3],
    style: RopeStyle,
    biased: bool,
    head_norms: bool,
    format: KvFormat,
    fused: bool,
) -> Vec<f32> {
    const HEAD_DIM: usize = 32;
    const N: [usize; 3] = [4 * HEAD_DIM, 2 * HEAD_DIM, 2 * HEAD_DIM];
    let mut c = Chain::new(format);
    let x = c.x;
    let rope = RoPE { style, head_dim: HEAD_DIM, n_rot: 24, freq_base: 1e4, freq_scale: 1.0, yarn: None };
    let kv = KvShape { n_cells: 4096, k_row_elems: N[1], v_row_elems: N[2], format };
    let store = KvcacheStore { layer: 0, kv };
    let norm = QkNorm { head_dim: HEAD_DIM, eps: EPS };
    let names = ["q", "k", "v"];
    let matrices: Vec<WeightRef> = (0..3).map(|i| c.matrix(names[i], types[i], N[i])).collect();
    let biases: Vec<WeightRef> = (0..3).map(|i| c.vector(&format!("b{i}"), N[i], 20 + i as u32)).collect();
    let norms: Vec<WeightRef> = (0..2).map(|i| c.vector(&format!("n{i}"), HEAD_DIM, 30 + i)).collect();
    let attn_norm = c.vector("norm", N_IN, 3);
    let (positions, cells) = (c.b.input(InputKind::Positions), c.b.input(InputKind::Cells));
    let result = if fused {
        let op = FusedQKV { norm: Some(RmsNorm { eps: EPS }) };
        let weights: Vec<&WeightRef> = std::iter::once(&attn_norm).chain(&matrices).collect();
        let qkv = c.b.node("qkv", op, &[x], &weights);
        let srcs = [qkv, positions, cells];
        match head_norms {
            true => {
                let op = FusedQkvNorm { n_q: N[0], norm, rope, store };
                c.b.node("result", op, &srcs, &[&norms[0], &norms[1]])
            }
            false => {
                let weights: Vec<&WeightRef> = if biased { biases.iter().collect() } else { vec![] };
                c.b.node("result", QkvBiasRopeStore { n_q: N[0], bias: biased, rope, store }, &srcs, &weights)
            }
        }
    } else {
        let x = c.b.node("normed", RmsNorm { eps: EPS }, &[x], &[&attn_norm]);
        let weights = if biased { vec![&matrices[0], &biases[0]] } else { vec![&matrices[0]] };
        let q = c.b.node("q", MatMul { bias: biased, ..plain() }, &[x], &weights);
        let q = if head_norms { c.b.node("q_norm", norm, &[q], &[&norms[0]]) } else { q };
        c.b.node("result", rope, &[q, positions], &[])
    };
    c.run(result, &names, OpKind::FusedQKV, usize::from(fused))
}

#[test]
fn fused_queries_have_the_bits_of_their_chain() {
    let mixed = [DType::Q4K, DType::Q4K, DType::Q6K];
    for types in [[DType::Q4_0; 3], mixed, [DType::F32; 3]] {
        for style in [RopeStyle::NonInterleaved, RopeStyle::Interleaved] {
            for (biased, head_norms) in [(false, false), (true, false), (false, true)] {
                for format in [KvFormat::F16, KvFormat::F32, KvFormat::Q8_0] {
                    let fused = queries(types, style, biased, head_norms, format, true);
                    let chain = queries(types, style, biased, head_norms, format, false);
                    assert_eq!(fused, chain, "{types:?} {style:?} {biased} {head_norms} {format:?}");
                }
            }
        }
    }
}

#[test]
fn a_product_with_its_residual_has_the_bits_of_a_product_and_a_sum() {
    for (dtype, biased) in [(DType::Q4K, false), (DType::Q8_0, true)] {
        let run = |as_pair: bool| {
            let mut c = Chain::new(KvFormat::F32);
            let matrix = c.matrix("w", dtype, N_IN);
            let bias = c.vector("b", N_IN, 5);
            let weights = if biased { vec![&matrix, &bias] } else { vec![&matrix] };
            let (x, op) = (c.x, MatMul { bias: biased, ..plain() });
            let product = c.b.node("product", op, &[x], &weights);
            if as_pair {
                // A second reader keeps the pass from folding the two.
                c.b.output(product);
            }
            let sum = c.b.node("sum", Add, &[product, x], &[]);
            c.b.output(sum);
            let n_outputs = if as_pair { 1 } else { 0 };
            let graph = c.b.finish().unwrap();
            let target = builtin().backends().iter().find_map(Target::device).unwrap();
            let mut set = target.backends(&Arc::new(c.weights));
            let mut executable = Executable::compile(graph, &mut set, &target.policy()).unwrap();
            let folded = executable.graph().nodes.iter().any(|node| node.op.kind() == OpKind::MatMulAdd);
            assert_eq!(folded, !as_pair);
            executable.run(&mut set, &Inputs { token_ids: &[0], ..Inputs::default() }, &mut ()).unwrap();
            let mut out = Vec::new();
            executable.read_output(&mut set, n_outputs, &mut out).unwrap();
            out
        };
        assert_eq!(run(false), run(true), "{dtype}");
    }
}
