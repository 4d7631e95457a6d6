//! The exponential function of every activation and softmax.

/// Below this the result is 0, above [`MAX`] it is infinite.
pub(in crate::vec_ops) const MIN: f32 = -104.0;
/// `exp(MAX)` does not fit in f32.
pub(in crate::vec_ops) const MAX: f32 = 89.0;
/// High part of ln 2; times any exponent of an f32 it is exact.
pub(in crate::vec_ops) const LN2_HIGH: f32 = 0.693_359_4;
/// What is missing from [`LN2_HIGH`].
pub(in crate::vec_ops) const LN2_LOW: f32 = -2.121_944_4e-4;
/// `exp(r) = 1 + r + r² * P(r)` for `|r| <= ln 2 / 2`; coefficients of P, highest power first.
pub(in crate::vec_ops) const POLYNOMIAL: [f32; 6] =
    [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5];

/// `e^x` to about 2 ulp: `2^n * e^r` with `n` the integer nearest to `x / ln 2`. `exp(0) = 1`, `exp(-inf) =
/// 0`; NaN stays NaN.
#[inline]
pub(in crate::vec_ops) fn exp(x: f32) -> f32 {
    // `clamp` lets NaN through.
    let x = x.clamp(MIN, MAX);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let p = POLYNOMIAL[1..].iter().fold(POLYNOMIAL[0], |p, c| p * r + c);
    let e = p * (r * r) + r + 1.0;
    // Two factors, because 2^n alone leaves the range of f32 at both ends.
    let n = n as i32;
    let half = n >> 1;
    e * power_of_two(half) * power_of_two(n - half)
}

/// `2^n` for `n` within the exponents of normal numbers.
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_ulp_of_f64_over_its_whole_range() {
        for step in 0..200_000 {
            let x = -87.0 + 175.7 * step as f32 / 200_000.0;
            let expected = f64::from(x).exp();
            let ulp = f64::from((expected as f32).next_up()) - f64::from(expected as f32);
            let error = (f64::from(exp(x)) - expected).abs() / ulp;
            assert!(error <= 2.0, "exp({x}) is off by {error} ulp");
        }
    }

    #[test]
    fn exp_keeps_its_special_values() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }
}
