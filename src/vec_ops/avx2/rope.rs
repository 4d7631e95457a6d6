//! Rotation of the pairs of one head.

use std::arch::x86_64::*;

use super::entry::entry;
use super::lanes::{LANES, load, store};
use crate::vec_ops::scalar;

entry!(rope_halves(x: &mut [f32], cos: &[f32], sin: &[f32]) = rotate_halves);
entry!(rope_neighbours(x: &mut [f32], cos: &[f32], sin: &[f32]) = rotate_neighbours);

#[target_feature(enable = "avx2,fma,f16c")]
fn rotate_halves(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let n = cos.len();
    let whole = n - n % LANES;
    let (low, high) = x.split_at_mut(n);
    for i in (0..whole).step_by(LANES) {
        let (a, b) = (load(&low[i..]), load(&high[i..]));
        let (c, s) = (load(&cos[i..]), load(&sin[i..]));
        store(&mut low[i..], _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(b, s)));
        store(&mut high[i..], _mm256_add_ps(_mm256_mul_ps(a, s), _mm256_mul_ps(b, c)));
    }
    for i in whole..n {
        let (a, b) = (low[i], high[i]);
        low[i] = a * cos[i] - b * sin[i];
        high[i] = a * sin[i] + b * cos[i];
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn rotate_neighbours(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let whole = x.len() - x.len() % LANES;
    let (wide, rest) = x.split_at_mut(whole);
    for (i, x) in wide.chunks_exact_mut(LANES).enumerate() {
        let v = load(x);
        let (c, s) = (load(&cos[i * LANES..]), load(&sin[i * LANES..]));
        let swapped = _mm256_permute_ps::<0b10_11_00_01>(v);
        store(x, _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(swapped, s)));
    }
    scalar::rope::rope_neighbours(rest, &cos[whole..], &sin[whole..]);
}
