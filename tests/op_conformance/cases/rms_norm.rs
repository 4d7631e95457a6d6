use minfer::graph::RmsNorm;
use minfer::tensor::{Shape, Tensor};

use crate::harness::{Case, values};

/// The definition, row by row.
pub(crate) fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f64> {
    let mut out = Vec::new();
    for row in x.chunks(weight.len()) {
        let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / row.len() as f64;
        let factor = 1.0 / (mean + f64::from(eps)).sqrt();
        out.extend(row.iter().zip(weight).map(|(x, w)| f64::from(*x) * factor * f64::from(*w)));
    }
    out
}

pub(crate) fn check() {
    for (row, n_tokens) in [(1, 1), (67, 3), (896, 200)] {
        let (x, weight) = (values(row * n_tokens, 1), values(row, 2));
        let mut case = Case::new(n_tokens);
        let w = case.weight(Tensor::from_f32(Shape::d1(row), &weight));
        let a = case.value(Shape::d2(row, n_tokens), &x);
        let result = case.apply(RmsNorm { eps: 1e-5 }, &[a], &[&w]);
        case.expect(result, &[], &rms_norm(&x, &weight, 1e-5), 3e-6);
    }
}
