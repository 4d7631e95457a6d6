use minfer::graph::{Reshape, Softmax};
use minfer::tensor::Shape;

use crate::harness::{Case, values};

/// The rows of the new shape are what a row-wise op works on.
pub(crate) fn check() {
    let x = values(24, 1);
    let mut case = Case::new(4);
    let a = case.value(Shape::d2(6, 4), &x);
    let reshaped = case.apply(Reshape { shape: Shape::d3(2, 3, 4) }, &[a], &[]);
    let result = case.apply(Softmax { scale: 1.0 }, &[reshaped], &[]);
    let mut expected = Vec::new();
    for pair in x.chunks(2) {
        let (a, b) = (f64::from(pair[0]).exp(), f64::from(pair[1]).exp());
        expected.extend([a / (a + b), b / (a + b)]);
    }
    case.expect(result, &[], &expected, 1e-6);
}
