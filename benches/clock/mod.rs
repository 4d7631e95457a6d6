//! The clock of the benchmarks.

use std::time::{Duration, Instant};

/// Processor time of the one thread there is, which other processes do not disturb; with several threads, time.
pub(crate) struct Clock {
    n_threads: usize,
    start: Instant,
}

impl Clock {
    /// A clock for work on `n_threads` threads, the calling one included.
    pub(crate) fn new(n_threads: usize) -> Clock {
        Clock { n_threads, start: Instant::now() }
    }

    /// Time since a fixed moment.
    pub(crate) fn now(&self) -> Duration {
        if self.n_threads > 1 {
            return self.start.elapsed();
        }
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is valid for the call.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}
