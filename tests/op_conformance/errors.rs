//! Calls that break a kernel's preconditions are errors that name the node, never panics.

use std::sync::Arc;

use minfer::graph::{
    Add, Backend, BackendError, BufferId, FusedQKV, GetRows, KvFormat, KvShape, KvcacheStore, Node, NodeCall,
    NodeId, NodeMeta, Op, Operand, RmsNorm, Slot, WeightRef,
};
use minfer::tensor::{DType, Shape, Tensor, TensorMap};
use minfer::vec_ops::Isa;

use crate::harness::cpu;

struct Fixture {
    backend: Box<dyn Backend>,
}

impl Fixture {
    fn new() -> Fixture {
        let mut weights = TensorMap::default();
        weights.insert("norm", Tensor::from_f32(Shape::d1(8), &[1.0; 8]));
        weights.insert("table", Tensor::from_f32(Shape::d2(8, 3), &[1.0; 24]));
        Fixture { backend: Box::new(cpu(Arc::new(weights), Isa::best(), 1)) }
    }

    fn buffer(&mut self, shape: Shape, dtype: DType, bytes: &[u8]) -> Operand {
        let id = self.backend.alloc(dtype.bytes_for(shape.n_elems()).unwrap()).unwrap();
        self.backend.write(id, 0, bytes).unwrap();
        Operand { slot: Slot::Buffer { id, offset_bytes: 0 }, shape, dtype }
    }

    fn f32(&mut self, shape: Shape) -> Operand {
        self.buffer(shape, DType::F32, &vec![0; shape.n_elems() * 4])
    }

    fn i32(&mut self, values: &[i32]) -> Operand {
        self.buffer(Shape::d1(values.len()), DType::I32, bytemuck::cast_slice(values))
    }

    fn run(
        &mut self,
        op: impl Into<Op>,
        srcs: &[Operand],
        weights: &[WeightRef],
        out: Operand,
    ) -> Result<(), BackendError> {
        let node = Node {
            id: NodeId(0),
            name: "the node".into(),
            op: op.into(),
            src: Vec::new(),
            shape: out.shape,
            dtype: out.dtype,
            layer: Some(0),
            backend: None,
            meta: NodeMeta { weights: weights.to_vec() },
        };
        self.backend.execute_node(&NodeCall { node: &node, srcs, out })
    }
}

fn weight(name: &str, shape: Shape) -> WeightRef {
    WeightRef { name: name.into(), shape, dtype: DType::F32 }
}

/// What the error says is wrong.
fn wrong(result: Result<(), BackendError>) -> &'static str {
    match result {
        Err(BackendError::Invariant { what, node, .. }) => {
            assert_eq!(node, "the node");
            what
        }
        other => panic!("expected a violated invariant, got {other:?}"),
    }
}

#[test]
fn shapes_that_break_the_op_s_rule_are_errors() {
    let mut f = Fixture::new();
    let (a, b, out) = (f.f32(Shape::d2(8, 2)), f.f32(Shape::d2(7, 2)), f.f32(Shape::d2(8, 2)));
    assert_eq!(wrong(f.run(Add, &[a, b], &[], out)), "shapes");
    assert_eq!(wrong(f.run(Add, &[a], &[], out)), "shapes");
    assert_eq!(wrong(f.run(Add, &[a; 12], &[], out)), "number of sources");
    let other = f.f32(Shape::d2(8, 3));
    assert_eq!(wrong(f.run(Add, &[a, a], &[], other)), "result");
    let norm = RmsNorm { eps: 1e-5 };
    assert_eq!(wrong(f.run(norm, &[b], &[weight("norm", Shape::d1(8))], b)), "shapes");
}

#[test]
fn sources_that_overlap_the_result_are_errors() {
    let mut f = Fixture::new();
    let (a, b) = (f.f32(Shape::d1(32)), f.f32(Shape::d1(16)));
    let Slot::Buffer { id, .. } = a.slot else { unreachable!() };
    let part = |offset_bytes| Operand { slot: Slot::Buffer { id, offset_bytes }, ..b };
    assert_eq!(wrong(f.run(Add, &[part(0), b], &[], part(32))), "place of a source");
    assert_eq!(wrong(f.run(Add, &[b, part(0)], &[], part(0))), "place of a source");
    assert_eq!(wrong(f.run(Add, &[b, b], &[], part(2))), "place of the result");
    assert!(f.run(Add, &[part(0), b], &[], part(64)).is_ok());
}

#[test]
fn missing_and_mistyped_weights_are_errors() {
    let mut f = Fixture::new();
    let x = f.f32(Shape::d1(8));
    let norm = RmsNorm { eps: 1e-5 };
    let missing = f.run(norm.clone(), &[x], &[weight("absent", Shape::d1(8))], x);
    assert!(matches!(missing, Err(BackendError::MissingWeight { weight, .. }) if weight == "absent"));
    let mistyped = WeightRef { dtype: DType::F16, ..weight("norm", Shape::d1(8)) };
    assert_eq!(wrong(f.run(norm, &[x], &[mistyped], x)), "type and shape of a weight");
}

#[test]
fn rows_out_of_range_are_errors() {
    let mut f = Fixture::new();
    let out = f.f32(Shape::d2(8, 2));
    for id in [-1, 3, i32::MAX] {
        let ids = f.i32(&[0, id]);
        assert_eq!(wrong(f.run(GetRows, &[ids], &[weight("table", Shape::d2(8, 3))], out)), "row");
        let x = f.f32(Shape::d2(8, 3));
        assert_eq!(wrong(f.run(GetRows, &[x, ids], &[], out)), "row");
    }
}

#[test]
fn cells_out_of_range_and_absent_regions_are_errors() {
    let mut f = Fixture::new();
    let kv = KvShape { n_cells: 64, k_row_elems: 8, v_row_elems: 4, format: KvFormat::F16 };
    let (k, v) = (f.f32(Shape::d2(8, 1)), f.f32(Shape::d2(4, 1)));
    let spec = kv.spec();
    let out = Operand { slot: Slot::Kv { layer: 0 }, shape: spec.shape, dtype: spec.dtype };
    let store = KvcacheStore { layer: 0, kv };
    let cells = f.i32(&[3]);
    assert_eq!(wrong(f.run(store.clone(), &[k, v, cells], &[], out)), "KV regions");
    f.backend.alloc_kv(0, kv).unwrap();
    assert!(f.run(store.clone(), &[k, v, cells], &[], out).is_ok());
    for cell in [-1, 64, i32::MAX] {
        let cells = f.i32(&[cell]);
        assert_eq!(wrong(f.run(store.clone(), &[k, v, cells], &[], out)), "cell");
    }
}

#[test]
fn ops_without_a_kernel_are_errors() {
    let mut f = Fixture::new();
    let (x, out) = (f.f32(Shape::d2(8, 1)), f.f32(Shape::d2(9, 1)));
    let weights = [3, 3, 3].map(|n| weight("table", Shape::d2(8, n)));
    assert!(!f.backend.supports_op(&FusedQKV { norm: None }.into(), DType::F32));
    assert!(matches!(
        f.run(FusedQKV { norm: None }, &[x], &weights, out),
        Err(BackendError::NoKernel { .. })
    ));
}

#[test]
fn buffers_out_of_range_are_errors() {
    let mut f = Fixture::new();
    let x = f.f32(Shape::d1(8));
    let far = Operand { slot: Slot::Buffer { id: BufferId(99), offset_bytes: 0 }, ..x };
    assert!(matches!(f.run(Add, &[x, far], &[], x), Err(BackendError::OutOfRange { buffer: 99, .. })));
    assert!(f.backend.read(BufferId(99), 0, &mut [0; 4]).is_err());
}
