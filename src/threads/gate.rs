//! A number that threads wait on: first spinning, then yielding, then asleep.
//!
//! Between two operations of one token the wait is a few microseconds, shorter than waking a sleeper takes,
//! so a waiter spins. When other processes want the core, yielding lets them have it. A wait that lasts
//! longer than one token's pauses sleeps and costs nothing.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use super::lock;

/// How long a waiter spins before it yields: about the longest operation that one thread does alone. Who
/// yields to a busy process is back only after that one's time slice.
const SPIN_TIME: Duration = Duration::from_micros(50);

/// Looks at the number between two looks at the clock.
const N_SPINS: usize = 100;

/// How long a waiter keeps yielding before it sleeps.
const YIELD_TIME: Duration = Duration::from_micros(300);

/// An atomic number with waiters. On a cache line of its own, because waiters read it all the time.
#[repr(align(128))]
pub(super) struct Gate {
    value: AtomicUsize,
    n_sleepers: AtomicUsize,
    asleep: Mutex<()>,
    wake: Condvar,
}

impl Gate {
    pub(super) fn new(value: usize) -> Gate {
        Gate {
            value: AtomicUsize::new(value),
            n_sleepers: AtomicUsize::new(0),
            asleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    pub(super) fn set(&self, value: usize) {
        self.value.store(value, Ordering::SeqCst);
        self.wake_sleepers();
    }

    pub(super) fn add(&self, n: usize) {
        self.value.fetch_add(n, Ordering::SeqCst);
        self.wake_sleepers();
    }

    pub(super) fn sub(&self, n: usize) {
        self.value.fetch_sub(n, Ordering::SeqCst);
        self.wake_sleepers();
    }

    /// Returns the first value seen for which `ready` holds. What other threads wrote before they set it is
    /// visible afterwards.
    pub(super) fn wait_until(&self, ready: impl Fn(usize) -> bool) -> usize {
        let started = Instant::now();
        while started.elapsed() < SPIN_TIME {
            for _ in 0..N_SPINS {
                if let Some(value) = self.check(&ready) {
                    return value;
                }
                spin_loop();
            }
        }
        while started.elapsed() < YIELD_TIME {
            if let Some(value) = self.check(&ready) {
                return value;
            }
            yield_now();
        }
        self.sleep_until(ready)
    }

    fn sleep_until(&self, ready: impl Fn(usize) -> bool) -> usize {
        let mut guard = lock(&self.asleep);
        // A sleeper announces itself and then looks at the value; a writer changes the value and then looks
        // for sleepers. Both in sequentially consistent order, so at least one of the two sees the other.
        self.n_sleepers.fetch_add(1, Ordering::SeqCst);
        let value = loop {
            if let Some(value) = self.check(&ready) {
                break value;
            }
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        };
        self.n_sleepers.fetch_sub(1, Ordering::SeqCst);
        value
    }

    fn check(&self, ready: &impl Fn(usize) -> bool) -> Option<usize> {
        let value = self.value.load(Ordering::SeqCst);
        ready(value).then_some(value)
    }

    fn wake_sleepers(&self) {
        if self.n_sleepers.load(Ordering::SeqCst) > 0 {
            // Taking the lock waits for a sleeper that has announced itself but does not wait yet.
            drop(lock(&self.asleep));
            self.wake.notify_all();
        }
    }
}
