//! Multiply-adds of bytes with AVX2: pairs of products, pairs of their sums, and one addition.

use std::arch::asm;
use std::arch::x86_64::*;

use super::entry::entry;
use crate::vec_ops::throughput::{Kernel, SIGNED, UNSIGNED};

/// Sums side by side: enough to hide the latency of an addition, few enough for the registers.
const CHAINS: usize = 8;

pub(in crate::vec_ops) static KERNEL: Kernel = Kernel { macs_per_round: 32 * CHAINS as u64, run };

entry! {
    /// All products of `n_rounds` rounds.
    run(n_rounds: u64) -> i32 = run_avx2
}

#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2(n_rounds: u64) -> i32 {
    let (ones, b) = (_mm256_set1_epi16(1), _mm256_set1_epi8(SIGNED));
    let mut a = _mm256_set1_epi8(UNSIGNED.cast_signed());
    let mut sums = [_mm256_setzero_si256(); CHAINS];
    for _ in 0..n_rounds {
        for sum in &mut sums {
            // SAFETY: no instruction at all; but the compiler must take it that the factor is another one,
            // and multiply again.
            unsafe { asm!("/* {} */", inout(ymm_reg) a, options(pure, nomem, nostack, preserves_flags)) };
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
        }
    }
    let total = sums.into_iter().fold(_mm256_setzero_si256(), |all, sum| _mm256_add_epi32(all, sum));
    let mut lanes = [0_i32; 8];
    // SAFETY: the array is eight integers.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), total) };
    lanes.iter().fold(0, |all, lane| all.wrapping_add(*lane))
}
