//! Multiply-adds of bytes in plain arithmetic.

use std::hint::black_box;

use crate::vec_ops::throughput::{Kernel, SIGNED, UNSIGNED};

/// Products of a round.
const N: usize = 64;

pub(in crate::vec_ops) static KERNEL: Kernel = Kernel { macs_per_round: N as u64, run };

fn run(n_rounds: u64) -> i32 {
    let (mut a, mut b) = ([UNSIGNED; N], [SIGNED; N]);
    let mut sums = [0_i32; N];
    for _ in 0..n_rounds {
        // What the compiler knows nothing about, it has to multiply.
        (a, b) = black_box((a, b));
        for i in 0..N {
            sums[i] = sums[i].wrapping_add(i32::from(a[i]) * i32::from(b[i]));
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}
