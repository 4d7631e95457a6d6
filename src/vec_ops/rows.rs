//! Arithmetic on rows of f32, one table of functions per instruction set.

use half::f16;

use super::{Isa, scalar};

/// Functions on rows. All work in place where they can, so that a result may take the place of its source.
/// The result of an element or row depends on nothing but that element or row.
pub struct RowKernels {
    /// `acc[i] += b[i]`
    pub add: fn(acc: &mut [f32], b: &[f32]),
    /// `acc[i] *= b[i]`
    pub mul: fn(acc: &mut [f32], b: &[f32]),
    /// `x[i] *= factor`
    pub scale: fn(x: &mut [f32], factor: f32),
    /// `Σ a[i] * b[i]`
    pub dot: fn(a: &[f32], b: &[f32]) -> f32,
    /// `x[i] = x[i] * sigmoid(x[i])`
    pub silu: fn(x: &mut [f32]),
    /// `gate[i] = silu(gate[i]) * up[i]`, with the bits of `silu` followed by `mul`.
    pub swiglu: fn(gate: &mut [f32], up: &[f32]),
    /// `x = softmax(x * scale)`
    pub softmax: fn(x: &mut [f32], scale: f32),
    /// `x[i] = x[i] / sqrt(mean(x²) + eps) * weight[i]`
    pub rms_norm: fn(x: &mut [f32], weight: &[f32], eps: f32),
    /// Rotates the pairs `(i, i + n / 2)` of `x` `[n]`; `cos` and `sin` are `[n / 2]`.
    pub rope_halves: fn(x: &mut [f32], cos: &[f32], sin: &[f32]),
    /// Rotates the pairs `(2i, 2i + 1)` of `x` `[n]`; `cos` and `sin` are `[n]`, each angle's stands twice.
    pub rope_neighbours: fn(x: &mut [f32], cos: &[f32], sin: &[f32]),
    /// `out[i] = x[i]`, exactly.
    pub f16_to_f32: fn(x: &[f16], out: &mut [f32]),
    /// `out[i] = x[i]`, rounded to nearest even.
    pub f32_to_f16: fn(x: &[f32], out: &mut [f16]),
}

static SCALAR: RowKernels = RowKernels {
    add: scalar::elementwise::add,
    mul: scalar::elementwise::mul,
    scale: scalar::elementwise::scale,
    dot: scalar::elementwise::dot,
    silu: scalar::activation::silu,
    swiglu: scalar::activation::swiglu,
    softmax: scalar::norm::softmax,
    rms_norm: scalar::norm::rms_norm,
    rope_halves: scalar::rope::rope_halves,
    rope_neighbours: scalar::rope::rope_neighbours,
    f16_to_f32: scalar::convert::f16_to_f32,
    f32_to_f16: scalar::convert::f32_to_f16,
};

#[cfg(target_arch = "x86_64")]
static AVX2: RowKernels = RowKernels {
    add: super::avx2::elementwise::add,
    mul: super::avx2::elementwise::mul,
    scale: super::avx2::elementwise::scale,
    dot: super::avx2::elementwise::dot,
    silu: super::avx2::activation::silu,
    swiglu: super::avx2::activation::swiglu,
    softmax: super::avx2::norm::softmax,
    rms_norm: super::avx2::norm::rms_norm,
    rope_halves: super::avx2::rope::rope_halves,
    rope_neighbours: super::avx2::rope::rope_neighbours,
    f16_to_f32: super::avx2::convert::f16_to_f32,
    f32_to_f16: super::avx2::convert::f32_to_f16,
};

/// The functions of `isa`. AVX-512 adds nothing here.
///
/// # Panics
/// If this machine does not run `isa`: every use of the table would be undefined.
pub fn table(isa: Isa) -> &'static RowKernels {
    isa.assert_available();
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => &AVX2,
        _ => &SCALAR,
    }
}

#[cfg(test)]
mod tests;
