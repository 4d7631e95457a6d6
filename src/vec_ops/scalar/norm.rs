//! RMS norm and softmax of one row.

use super::elementwise::dot;
use super::exp::exp;

/// `x[i] = x[i] / sqrt(mean(x²) + eps) * weight[i]`
pub(in crate::vec_ops) fn rms_norm(x: &mut [f32], weight: &[f32], eps: f32) {
    let mean = dot(x, x) / x.len() as f32;
    let factor = 1.0 / (mean + eps).sqrt();
    for (x, w) in x.iter_mut().zip(weight) {
        *x = *x * factor * w;
    }
}

/// `x[i] = exp(x[i] * scale) / Σ exp(x * scale)`, with the largest element subtracted first.
pub(in crate::vec_ops) fn softmax(x: &mut [f32], scale: f32) {
    let mut max = f32::NEG_INFINITY;
    for x in x.iter_mut() {
        *x *= scale;
        max = if *x > max { *x } else { max };
    }
    let mut sum = 0.0;
    for x in x.iter_mut() {
        *x = exp(*x - max);
        sum += *x;
    }
    let factor = 1.0 / sum;
    for x in x {
        *x *= factor;
    }
}
