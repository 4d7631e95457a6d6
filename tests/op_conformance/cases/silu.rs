use minfer::graph::Silu;
use minfer::tensor::Shape;

use crate::harness::{Case, values};

pub(crate) fn silu(x: f32) -> f64 {
    let x = f64::from(x);
    x / (1.0 + (-x).exp())
}

pub(crate) fn check() {
    for (row, n_tokens, size) in [(1, 1, 1.0), (35, 3, 60.0), (3000, 20, 5.0)] {
        let x: Vec<f32> = values(row * n_tokens, 1).iter().map(|x| x * size).collect();
        let mut case = Case::new(n_tokens);
        let a = case.value(Shape::d2(row, n_tokens), &x);
        let result = case.apply(Silu, &[a], &[]);
        let expected: Vec<f64> = x.iter().map(|x| silu(*x)).collect();
        case.expect(result, &[], &expected, 2e-6);
    }
}
