//! Angles of rotary position embedding, as all backends compute them.

use crate::graph::{RoPE, Yarn};

/// Angle per position of each pair, `[n_rot / 2]`.
pub(super) fn frequencies(op: &RoPE, factors: Option<&[f32]>) -> Vec<f64> {
    let (base, scale) = (f64::from(op.freq_base), f64::from(op.freq_scale));
    let pairs = 0..op.n_rot / 2;
    let frequency = |pair: usize| {
        let plain = base.powf(-2.0 * pair as f64 / op.n_rot as f64);
        let plain = factors.map_or(plain, |factors| plain / f64::from(factors[pair]));
        let kept = op.yarn.map_or(0.0, |yarn| kept_part(op, &yarn, pair));
        plain * scale * (1.0 - kept) + plain * kept
    };
    pairs.map(frequency).collect()
}

/// How much of a pair's frequency YaRN leaves as it is: 1 for fast pairs, 0 for slow ones, a ramp in between.
fn kept_part(op: &RoPE, yarn: &Yarn, pair: usize) -> f64 {
    let (n_rot, base) = (op.n_rot as f64, f64::from(op.freq_base));
    // The pair that makes this many rotations over the original context.
    let pair_with = |n_rotations: f32| {
        let wavelength = yarn.n_ctx_orig as f64 / (f64::from(n_rotations) * std::f64::consts::TAU);
        n_rot * wavelength.ln() / (2.0 * base.ln())
    };
    let low = pair_with(yarn.beta_fast).floor().max(0.0);
    let high = pair_with(yarn.beta_slow).ceil().min(n_rot - 1.0);
    let ramp = (pair as f64 - low) / (high - low).max(0.001);
    (1.0 - ramp.clamp(0.0, 1.0)) * f64::from(yarn.ext_factor)
}

/// The factor on cosine and sine: 1, or YaRN's, which stands for a temperature of the attention.
pub(super) fn magnitude(op: &RoPE) -> f64 {
    let Some(yarn) = &op.yarn else { return 1.0 };
    let stretched = yarn.ext_factor != 0.0 && op.freq_scale < 1.0;
    let temperature = if stretched { 1.0 - 0.1 * f64::from(op.freq_scale).ln() } else { 1.0 };
    f64::from(yarn.attn_factor) * temperature
}
