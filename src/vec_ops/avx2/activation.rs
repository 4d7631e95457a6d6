//! SiLU, alone and gated.

use std::arch::x86_64::*;

use super::entry::entry;
use super::lanes::{exp, map, zip_map};

entry!(silu(x: &mut [f32]) = silu_lanewise);
entry!(swiglu(gate: &mut [f32], up: &[f32]) = swiglu_lanewise);

#[target_feature(enable = "avx2,fma,f16c")]
fn silu_lanewise(x: &mut [f32]) {
    map(x, |x| silu_of(x));
}

#[target_feature(enable = "avx2,fma,f16c")]
fn swiglu_lanewise(gate: &mut [f32], up: &[f32]) {
    zip_map(gate, up, |gate, up| _mm256_mul_ps(silu_of(gate), up));
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn silu_of(x: __m256) -> __m256 {
    let minus_x = _mm256_xor_ps(x, _mm256_set1_ps(-0.0));
    _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0), exp(minus_x)))
}
