use minfer::graph::{GetRows, InputKind};
use minfer::tensor::{DType, Shape, Tensor, TensorBytes};
use minfer::vec_ops::scalar::dequant::dequantise_row;

use crate::harness::{Case, f64s, values};

pub(crate) fn check() {
    from_every_weight_type();
    from_a_value();
}

fn from_every_weight_type() {
    const N_TOKENS: usize = 3;
    for dtype in DType::all().filter(|dtype| *dtype != DType::I32) {
        let shape = Shape::d2(256, N_TOKENS);
        // Arbitrary bits, without those that make f16 and f32 fields NaN or infinite.
        let n_bytes = dtype.bytes_for(shape.n_elems()).unwrap();
        let bytes: Vec<u8> = (0..n_bytes).map(|i| (i * 37 % 251) as u8 & 0x3b).collect();
        let table = Tensor { dtype, shape, bytes: TensorBytes::owned(&bytes) };
        let mut expected = vec![0.0; shape.n_elems()];
        for (row, out) in expected.chunks_mut(256).enumerate() {
            dequantise_row(dtype, table.row(row), out);
        }
        let mut case = Case::new(N_TOKENS);
        let w = case.weight(table);
        let ids = case.builder.input(InputKind::TokenIds);
        let result = case.apply(GetRows, &[ids], &[&w]);
        case.expect(result, &[], &f64s(&expected), 0.0);
    }
}

/// The positions serve as row numbers: any rows in any order.
fn from_a_value() {
    let x = values(7 * 4, 1);
    let mut case = Case::new(4);
    let a = case.value(Shape::d2(7, 4), &x);
    let rows = case.builder.input(InputKind::Positions);
    let result = case.apply(GetRows, &[a, rows], &[]);
    let ids = [2, 0, 3, 2];
    let expected: Vec<f32> = ids.iter().flat_map(|id| x[id * 7..(id + 1) * 7].to_vec()).collect();
    case.expect(result, &ids.map(|id| id as i32), &f64s(&expected), 0.0);
}
