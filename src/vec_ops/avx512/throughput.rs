//! Multiply-adds of bytes with AVX-512 VNNI: four products and their sum per lane in one instruction.

use std::arch::x86_64::*;

use crate::vec_ops::throughput::{Kernel, SIGNED, UNSIGNED};

/// Sums side by side: enough to hide the latency of an instruction.
const CHAINS: usize = 12;

pub(in crate::vec_ops) static KERNEL: Kernel = Kernel { macs_per_round: 64 * CHAINS as u64, run };

fn run(n_rounds: u64) -> i32 {
    // SAFETY: the table with this function is only handed out where these extensions exist.
    unsafe { run_vnni(n_rounds) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn run_vnni(n_rounds: u64) -> i32 {
    let (a, b) = (_mm512_set1_epi8(UNSIGNED.cast_signed()), _mm512_set1_epi8(SIGNED));
    let mut sums = [_mm512_setzero_si512(); CHAINS];
    for _ in 0..n_rounds {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, a, b);
        }
    }
    _mm512_reduce_add_epi32(
        sums.into_iter().fold(_mm512_setzero_si512(), |all, sum| _mm512_add_epi32(all, sum)),
    )
}
