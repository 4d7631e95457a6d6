use minfer::graph::{InputKind, RoPE, RopeStyle, Yarn};
use minfer::tensor::{Shape, Tensor};

use crate::harness::{Case, values};

const N_HEAD: usize = 3;
const POSITIONS: [i32; 4] = [0, 1, 77, 4000];

pub(crate) fn check() {
    for style in [RopeStyle::NonInterleaved, RopeStyle::Interleaved] {
        for (head_dim, n_rot) in [(64, 64), (64, 32), (20, 12), (128, 128)] {
            let plain = RoPE { style, head_dim, n_rot, freq_base: 10_000.0, freq_scale: 1.0, yarn: None };
            check_with(&plain, None);
            check_with(&RoPE { freq_scale: 0.25, ..plain.clone() }, None);
            let factors: Vec<f32> = (0..n_rot / 2).map(|i| 1.0 + i as f32 * 0.5).collect();
            check_with(&plain, Some(&factors));
            let yarn = Yarn { ext_factor: 1.0, attn_factor: 1.0, beta_fast: 32.0, beta_slow: 1.0, n_ctx_orig: 128 };
            check_with(&RoPE { freq_scale: 0.25, yarn: Some(yarn), ..plain }, None);
        }
    }
}

/// Angle and magnitude of a pair at a position, by the formulas of the two papers.
fn rotation(op: &RoPE, factors: Option<&[f32]>, pair: usize, position: i32) -> (f64, f64) {
    let (d, base, s) = (op.n_rot as f64, f64::from(op.freq_base), 1.0 / f64::from(op.freq_scale));
    let theta = base.powf(-2.0 * pair as f64 / d) / factors.map_or(1.0, |f| f64::from(f[pair]));
    let position = f64::from(position);
    let Some(yarn) = op.yarn else { return (position * theta / s, 1.0) };
    let dimension = |rotations: f32| {
        let ratio = yarn.n_ctx_orig as f64 / (f64::from(rotations) * 2.0 * std::f64::consts::PI);
        d * ratio.ln() / (2.0 * base.ln())
    };
    let low = dimension(yarn.beta_fast).floor().max(0.0);
    let high = dimension(yarn.beta_slow).ceil().min(d - 1.0);
    let gamma = 1.0 - ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
    (position * ((1.0 - gamma) * theta / s + gamma * theta), 0.1 * s.ln() + 1.0)
}

fn check_with(op: &RoPE, factors: Option<&[f32]>) {
    let row = N_HEAD * op.head_dim;
    let x = values(row * POSITIONS.len(), 5);
    let mut expected: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    for (head, out) in expected.chunks_mut(op.head_dim).enumerate() {
        for pair in 0..op.n_rot / 2 {
            let (a, b) = match op.style {
                RopeStyle::NonInterleaved => (pair, pair + op.n_rot / 2),
                RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
            };
            let (angle, magnitude) = rotation(op, factors, pair, POSITIONS[head / N_HEAD]);
            let (x, y) = (out[a] * magnitude, out[b] * magnitude);
            out[a] = x * angle.cos() - y * angle.sin();
            out[b] = x * angle.sin() + y * angle.cos();
        }
    }
    let mut case = Case::new(POSITIONS.len());
    let w = factors.map(|factors| case.weight(Tensor::from_f32(Shape::d1(factors.len()), factors)));
    let a = case.value(Shape::d2(row, POSITIONS.len()), &x);
    let positions = case.builder.input(InputKind::Positions);
    let weights: Vec<_> = w.iter().collect();
    let result = case.apply(op.clone(), &[a, positions], &weights);
    case.expect(result, &POSITIONS, &expected, 1e-6);
}
