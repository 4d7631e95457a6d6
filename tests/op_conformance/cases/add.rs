use minfer::graph::Add;
use minfer::tensor::Shape;

use crate::harness::{Case, f64s, values};

pub(crate) fn check() {
    for (row, n_tokens) in [(1, 1), (33, 3), (5000, 40)] {
        let shape = Shape::d2(row, n_tokens);
        let (x, y) = (values(row * n_tokens, 1), values(row * n_tokens, 2));
        let mut case = Case::new(n_tokens);
        let (a, b) = (case.value(shape, &x), case.value(shape, &y));
        let sum = case.apply(Add, &[a, b], &[]);
        // The sum again, so that one addition has to keep its source and one may overwrite it.
        let result = case.apply(Add, &[sum, a], &[]);
        let expected: Vec<f64> = f64s(&x).iter().zip(f64s(&y)).map(|(x, y)| (x + y) + x).collect();
        case.expect(result, &[], &expected, 1e-6);
    }
}
