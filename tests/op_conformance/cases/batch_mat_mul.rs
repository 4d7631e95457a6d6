use minfer::graph::BatchMatMul;
use minfer::tensor::Shape;

use crate::harness::{Case, values};

pub(crate) fn check() {
    for (n_in, n_out, n_rows, batch) in [(1, 1, 1, 1), (37, 5, 3, 4), (64, 70, 33, 6)] {
        let (x, y) = (values(n_in * n_out * batch, 1), values(n_in * n_rows * batch, 2));
        let mut case = Case::new(1);
        let a = case.value(Shape::d3(n_in, n_out, batch), &x);
        let b = case.value(Shape::d3(n_in, n_rows, batch), &y);
        let result = case.apply(BatchMatMul, &[a, b], &[]);
        let mut expected = Vec::new();
        for (x, y) in x.chunks(n_in * n_out).zip(y.chunks(n_in * n_rows)) {
            for y in y.chunks(n_in) {
                for x in x.chunks(n_in) {
                    expected.push(x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum());
                }
            }
        }
        case.expect(result, &[], &expected, 1e-5);
    }
}
