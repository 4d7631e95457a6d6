use minfer::graph::Softmax;
use minfer::tensor::Shape;

use crate::harness::{Case, values};

pub(crate) fn check() {
    for (row, n_tokens, size) in [(1, 1, 1.0), (35, 3, 40.0), (3000, 20, 3.0)] {
        let x: Vec<f32> = values(row * n_tokens, 1).iter().map(|x| x * size).collect();
        let mut case = Case::new(n_tokens);
        let a = case.value(Shape::d2(row, n_tokens), &x);
        let result = case.apply(Softmax { scale: 0.7 }, &[a], &[]);
        let mut expected = Vec::new();
        for row in x.chunks(row) {
            let exps: Vec<f64> = row.iter().map(|x| (f64::from(*x) * f64::from(0.7f32)).exp()).collect();
            let sum: f64 = exps.iter().sum();
            expected.extend(exps.iter().map(|e| e / sum));
        }
        case.expect(result, &[], &expected, 1e-6);
    }
}
