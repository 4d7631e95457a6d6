use minfer::graph::QkNorm;
use minfer::tensor::{Shape, Tensor};

use super::rms_norm::rms_norm;
use crate::harness::{Case, values};

pub(crate) fn check() {
    for (head_dim, n_head, n_tokens) in [(32, 1, 1), (20, 3, 5), (128, 16, 70)] {
        let (x, weight) = (values(head_dim * n_head * n_tokens, 1), values(head_dim, 2));
        let mut case = Case::new(n_tokens);
        let w = case.weight(Tensor::from_f32(Shape::d1(head_dim), &weight));
        let a = case.value(Shape::d2(head_dim * n_head, n_tokens), &x);
        let result = case.apply(QkNorm { head_dim, eps: 1e-6 }, &[a], &[&w]);
        case.expect(result, &[], &rms_norm(&x, &weight, 1e-6), 3e-6);
    }
}
