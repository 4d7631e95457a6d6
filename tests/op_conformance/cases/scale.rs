use minfer::graph::Scale;
use minfer::tensor::Shape;

use crate::harness::{Case, values};

pub(crate) fn check() {
    for (row, n_tokens) in [(1, 1), (35, 3), (5000, 40)] {
        let x = values(row * n_tokens, 1);
        let mut case = Case::new(n_tokens);
        let a = case.value(Shape::d2(row, n_tokens), &x);
        let result = case.apply(Scale { factor: -0.37 }, &[a], &[]);
        let expected: Vec<f64> = x.iter().map(|x| f64::from(*x) * f64::from(-0.37f32)).collect();
        case.expect(result, &[], &expected, 1e-6);
    }
}
