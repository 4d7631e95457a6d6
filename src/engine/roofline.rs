//! The machine's limits: how fast it reads memory, and how fast it multiplies bytes.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use super::{Engine, available_bytes};
use crate::threads::ThreadPool;
use crate::vec_ops::throughput;

/// Bytes read per measurement, if there is as much memory: far more than caches hold.
const BUFFER_BYTES: usize = 1 << 30;
/// Measurements, of which the best counts: others only disturb.
const N_RUNS: usize = 7;
/// Rounds of multiply-adds per measurement and thread.
const N_ROUNDS: u64 = 1 << 21;

/// What no program on this machine exceeds, with the threads and the instruction set of an engine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Bytes read from memory per second, of all threads together.
    pub read_bytes_per_second: f64,
    /// Multiply-adds of int8 per second, of all threads together.
    pub int8_macs_per_second: f64,
}

impl Engine {
    /// Measures the machine's limits with this engine's threads and instruction set. `None` if there is not
    /// enough memory.
    pub fn measure_limits(&self) -> Option<Limits> {
        Some(Limits {
            read_bytes_per_second: read_bytes_per_second(self.pool())?,
            int8_macs_per_second: int8_macs_per_second(self.pool(), self.isa()),
        })
    }
}

/// The best time of some runs of `run`.
fn best(mut run: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..N_RUNS).map(once).min().unwrap_or_default()
}

fn read_bytes_per_second(pool: &ThreadPool) -> Option<f64> {
    let n_bytes = BUFFER_BYTES.min(available_bytes().unwrap_or(BUFFER_BYTES) / 2);
    let mut buffer = MmapMut::map_anon(n_bytes).ok()?;
    // As for weights; where the system has no huge pages, the others are what there is.
    #[cfg(target_os = "linux")]
    let _ = buffer.advise(memmap2::Advice::HugePage);
    let n_workers = pool.n_workers();
    let n_each = (n_bytes / n_workers).next_multiple_of(64).max(64);
    // Pages lie near the thread that writes them first.
    let parts: Vec<_> = buffer.chunks_mut(n_each).map(Mutex::new).collect();
    pool.run(&|worker, _| {
        if let Some(Ok(mut part)) = parts.get(worker).map(Mutex::lock) {
            part.fill(worker as u8 + 1);
        }
    });
    drop(parts);
    let parts: Vec<&[u8]> = buffer.chunks(n_each).collect();
    let time = best(|| {
        pool.run(&|worker, _| {
            if let Some(part) = parts.get(worker) {
                std::hint::black_box(sum(part));
            }
        });
    });
    Some(n_bytes as f64 / time.as_secs_f64())
}

/// The sum of all words, so that each is read.
fn sum(bytes: &[u8]) -> u64 {
    let mut sums = [0_u64; 8];
    for line in bytes.chunks_exact(64) {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

fn int8_macs_per_second(pool: &ThreadPool, isa: crate::vec_ops::Isa) -> f64 {
    let kernel = throughput::kernel(isa);
    let time = best(|| {
        pool.run(&|_, _| {
            std::hint::black_box((kernel.run)(N_ROUNDS));
        });
    });
    (N_ROUNDS * kernel.macs_per_round * pool.n_workers() as u64) as f64 / time.as_secs_f64()
}
