use minfer::graph::Permute;
use minfer::tensor::Shape;

use crate::harness::{Case, f64s, values};

pub(crate) fn check() {
    let (shape, x) = ([3, 4, 5, 2], values(120, 1));
    for axes in [[1, 0, 2, 3], [0, 2, 1, 3], [2, 0, 3, 1], [3, 2, 1, 0], [0, 1, 2, 3]] {
        let mut case = Case::new(1);
        let a = case.value(Shape(shape), &x);
        let result = case.apply(Permute { axes }, &[a], &[]);
        let n = axes.map(|axis| shape[axis]);
        let mut expected = vec![0.0; x.len()];
        for (i, out) in expected.iter_mut().enumerate() {
            let index = [i % n[0], i / n[0] % n[1], i / n[0] / n[1] % n[2], i / n[0] / n[1] / n[2]];
            let mut source = [0; 4];
            for (axis, index) in axes.into_iter().zip(index) {
                source[axis] = index;
            }
            *out = x[source[0] + 3 * (source[1] + 4 * (source[2] + 5 * source[3]))];
        }
        case.expect(result, &[], &f64s(&expected), 0.0);
    }
}
