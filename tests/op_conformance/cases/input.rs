use minfer::graph::{GetRows, InputKind};
use minfer::tensor::{Shape, Tensor};

use crate::harness::{Case, f64s};

/// What is written to an input is what its readers see: each token picks the row of its own id.
pub(crate) fn check() {
    let mut case = Case::new(5);
    let rows: Vec<f32> = (0..15).map(|i| i as f32).collect();
    let table = case.weight(Tensor::from_f32(Shape::d2(3, 5), &rows));
    let ids = case.builder.input(InputKind::TokenIds);
    let picked = case.apply(GetRows, &[ids], &[&table]);
    case.expect(picked, &[], &f64s(&rows), 0.0);
}
