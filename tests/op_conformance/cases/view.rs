use minfer::graph::{Scale, View};
use minfer::tensor::Shape;

use crate::harness::{Case, values};

/// A view is its elements of the source, for a kernel that reads it too.
pub(crate) fn check() {
    let x = values(48, 1);
    let mut case = Case::new(4);
    let a = case.value(Shape::d2(12, 4), &x);
    let view = case.apply(View { offset_elems: 7, shape: Shape::d2(5, 6) }, &[a], &[]);
    let result = case.apply(Scale { factor: 2.0 }, &[view], &[]);
    let expected: Vec<f64> = x[7..37].iter().map(|x| f64::from(*x) * 2.0).collect();
    case.expect(result, &[], &expected, 0.0);
}
