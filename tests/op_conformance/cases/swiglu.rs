use minfer::graph::{Mul, Silu};
use minfer::tensor::Shape;

use super::silu::silu;
use crate::harness::{Case, values};

/// The fusion pass makes the node, out of the chain in either operand order.
pub(crate) fn check() {
    for (row, n_tokens, silu_first) in [(1, 1, true), (35, 3, false), (3000, 20, true)] {
        let shape = Shape::d2(row, n_tokens);
        let (gate, up) = (values(row * n_tokens, 1), values(row * n_tokens, 2));
        let mut case = Case::new(n_tokens);
        let (a, b) = (case.value(shape, &gate), case.value(shape, &up));
        let activated = case.apply(Silu, &[a], &[]);
        let operands = if silu_first { [activated, b] } else { [b, activated] };
        let result = case.apply(Mul, &operands, &[]);
        let expected: Vec<f64> = gate.iter().zip(&up).map(|(gate, up)| silu(*gate) * f64::from(*up)).collect();
        case.expect(result, &[], &expected, 2e-6);
    }
}
