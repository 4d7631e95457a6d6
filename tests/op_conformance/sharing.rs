//! Matmuls share the quantised form of their source; it must not outlive what it was made from.

use std::sync::Arc;

use minfer::graph::{
    ActivationPrecision, Backend, BufferId, MatMul, Node, NodeCall, NodeId, NodeMeta, Op, Operand, Scale,
    Slot, WeightRef,
};
use minfer::tensor::{DType, Shape, Tensor, TensorBytes, TensorMap};
use minfer::vec_ops::Isa;

use crate::harness::{cpu, values};

const N: usize = 32;

fn execute(backend: &mut dyn Backend, op: impl Into<Op>, weights: &[WeightRef], src: Operand, out: Operand) {
    let node = Node {
        id: NodeId(0),
        name: "node".into(),
        op: op.into(),
        src: Vec::new(),
        shape: out.shape,
        dtype: out.dtype,
        layer: None,
        backend: None,
        meta: NodeMeta { weights: weights.to_vec() },
    };
    backend.execute_node(&NodeCall { node: &node, srcs: &[src], out }).unwrap();
}

fn operand(id: BufferId) -> Operand {
    Operand { slot: Slot::Buffer { id, offset_bytes: 0 }, shape: Shape::d2(N, 1), dtype: DType::F32 }
}

fn read(backend: &mut dyn Backend, id: BufferId) -> Vec<f32> {
    let mut out = vec![0.0; N];
    backend.read(id, 0, bytemuck::cast_slice_mut(&mut out)).unwrap();
    out
}

/// A backend with a Q8_0 identity matrix, so that a product is nearly its source.
fn backend() -> (Box<dyn Backend>, WeightRef) {
    let mut bytes = Vec::new();
    for row in 0..N {
        bytes.extend(half::f16::ONE.to_le_bytes());
        bytes.extend((0..N).map(|column| u8::from(row == column)));
    }
    let shape = Shape::d2(N, N);
    let mut weights = TensorMap::default();
    weights.insert("identity", Tensor { dtype: DType::Q8_0, shape, bytes: TensorBytes::owned(&bytes) });
    let weight = WeightRef { name: "identity".into(), shape, dtype: DType::Q8_0 };
    (Box::new(cpu(Arc::new(weights), Isa::best(), 1)), weight)
}

fn product(
    backend: &mut dyn Backend,
    activations: ActivationPrecision,
    weight: &WeightRef,
    x: BufferId,
    y: BufferId,
) -> Vec<f32> {
    let op = MatMul { bias: false, activations };
    execute(backend, op, std::slice::from_ref(weight), operand(x), operand(y));
    read(backend, y)
}

#[test]
fn products_follow_their_source_through_every_kind_of_write() {
    let (mut backend, identity) = backend();
    let (x, y) = (backend.alloc(N * 4).unwrap(), backend.alloc(N * 4).unwrap());
    let product_of =
        |backend: &mut dyn Backend| product(backend, ActivationPrecision::Bits8, &identity, x, y);
    let near = |got: Vec<f32>, expected: &[f32]| {
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 0.02, "expected {expected}, got {got}");
        }
    };
    let first = values(N, 1);
    backend.write(x, 0, bytemuck::cast_slice(&first)).unwrap();
    near(product_of(&mut *backend), &first);
    near(product_of(&mut *backend), &first);
    // A write of the host.
    let second = values(N, 2);
    backend.write(x, 0, bytemuck::cast_slice(&second)).unwrap();
    near(product_of(&mut *backend), &second);
    // A node that works in place.
    execute(&mut *backend, Scale { factor: -1.0 }, &[], operand(x), operand(x));
    let negated: Vec<f32> = second.iter().map(|x| -x).collect();
    near(product_of(&mut *backend), &negated);
}

#[test]
fn products_of_one_source_keep_their_own_precision() {
    use ActivationPrecision::{Bits8, Bits16};
    let (mut backend, identity) = backend();
    let (x, y) = (backend.alloc(N * 4).unwrap(), backend.alloc(N * 4).unwrap());
    let source = values(N, 1);
    backend.write(x, 0, bytemuck::cast_slice(&source)).unwrap();
    let mut error_of = |precision| {
        let got = product(&mut *backend, precision, &identity, x, y);
        got.iter().zip(&source).map(|(y, x)| (y - x).abs()).fold(0.0, f32::max)
    };
    let errors = [Bits8, Bits16, Bits8].map(&mut error_of);
    assert_eq!(errors[0], errors[2]);
    // What one plane leaves of an element is at most half a step, of which the second makes 254 steps.
    assert!(errors[1] > 0.0 && errors[1] < errors[0] / 200.0, "{errors:?}");
}
