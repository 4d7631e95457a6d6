//! A persistent worker pool for data-parallel work.
//!
//! [`ThreadPool::run`] executes one borrowing closure on every worker and returns when all of them are done;
//! the calling thread is worker 0. How a waiting thread spends its time is the business of `gate`; how
//! workers share one output is that of [`Stripes`].

mod gate;
mod stripes;
mod topology;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use gate::Gate;
pub use stripes::{Stripe, Stripes};
pub use topology::{default_threads, threads_for};

use crate::error::Hint;

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ThreadsError {
    /// A pool has at least the calling thread.
    #[error("starting the worker pool: thread count: expected at least 1, got 0")]
    NoThreads,
    /// The operating system refused a thread.
    #[error("starting the worker pool: worker {worker} of {n_threads}: {source}")]
    Spawn {
        /// The worker that could not be started.
        worker: usize,
        /// How many were asked for.
        n_threads: usize,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Hint for ThreadsError {
    fn hint(&self) -> Option<String> {
        let n_threads = default_threads();
        Some(format!("ask for fewer threads; this machine suggests {n_threads}"))
    }
}

type Job = dyn Fn(usize, usize) + Sync;
type Panic = Box<dyn Any + Send>;

thread_local! {
    /// True while this thread executes a closure given to `run`.
    static INSIDE_RUN: Cell<bool> = const { Cell::new(false) };
}

struct Shared {
    n_workers: usize,
    /// Counts the jobs handed out; a change is the signal to start.
    jobs: Gate,
    /// Workers, the caller excepted, that have not finished the present job.
    pending: Gate,
    /// The present job. Written only while `pending` is 0, read only between a change of `jobs` and the
    /// reader's own decrement of `pending`.
    job: UnsafeCell<Option<*const Job>>,
    stop: AtomicBool,
    panic: Mutex<Option<Panic>>,
}

// SAFETY: `job` is the only field that is not Sync by itself; its comment states the protocol that keeps
// accesses apart, and `jobs` and `pending` order them. The closure behind the pointer is Sync.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `job` is only ever dereferenced while the thread that owns the closure waits in
// `run`.
unsafe impl Send for Shared {}

/// Threads that wait for work. Dropping the pool ends them.
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Held while a job runs, so that two callers take turns.
    turn: Mutex<()>,
}

impl ThreadPool {
    /// Starts a pool of `n_threads` workers, the calling thread included; 1 starts no thread at all.
    ///
    /// # Errors
    /// Zero threads, or a thread that the system does not start.
    pub fn new(n_threads: usize) -> Result<ThreadPool, ThreadsError> {
        if n_threads == 0 {
            return Err(ThreadsError::NoThreads);
        }
        let shared = Arc::new(Shared {
            n_workers: n_threads,
            jobs: Gate::new(0),
            pending: Gate::new(0),
            job: UnsafeCell::new(None),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let mut pool =
            ThreadPool { shared, threads: Vec::with_capacity(n_threads - 1), turn: Mutex::new(()) };
        for worker in 1..n_threads {
            let shared = Arc::clone(&pool.shared);
            let thread = Builder::new()
                .name(format!("minfer-{worker}"))
                .spawn(move || work(&shared, worker))
                .map_err(|source| ThreadsError::Spawn { worker, n_threads, source })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Number of workers, the calling thread included.
    pub fn n_workers(&self) -> usize {
        self.shared.n_workers
    }

    /// Calls `body(worker, n_workers)` once on every worker and returns when all calls have returned.
    ///
    /// Called from inside a running body, it makes the one call `body(0, 1)` on the spot. A panic in any call
    /// reaches the caller after all calls have ended.
    pub fn run(&self, body: &(dyn Fn(usize, usize) + Sync)) {
        if self.n_workers() == 1 || INSIDE_RUN.get() {
            return body(0, 1);
        }
        let _turn = lock(&self.turn);
        self.start(body);
        let own = call(body, 0, self.n_workers());
        self.shared.pending.wait_until(|n_pending| n_pending == 0);
        let panic = lock(&self.shared.panic).take();
        if let Some(payload) = own.err().or(panic) {
            resume_unwind(payload);
        }
    }

    /// Hands `0..n_items` out to the workers in ranges of up to `grain`, each when a worker has time for it.
    pub fn for_chunks(&self, n_items: usize, grain: usize, body: &(dyn Fn(Range<usize>, usize) + Sync)) {
        let grain = grain.max(1);
        let next = AtomicUsize::new(0);
        let drain = |worker: usize, _: usize| {
            loop {
                let start = next.fetch_add(grain, Ordering::Relaxed);
                if start >= n_items {
                    return;
                }
                body(start..n_items.min(start + grain), worker);
            }
        };
        if n_items <= grain {
            return drain(0, 1);
        }
        self.run(&drain);
    }

    /// Publishes `body` to the workers. The caller must not return before `pending` is back at 0.
    fn start(&self, body: &(dyn Fn(usize, usize) + Sync)) {
        // SAFETY: only the lifetime changes. `run` waits for `pending` to reach 0 before it returns, whatever
        // panics, and no worker touches the job after its decrement.
        let job = unsafe { std::mem::transmute::<&(dyn Fn(usize, usize) + Sync), &'static Job>(body) };
        // SAFETY: `turn` is held and `pending` is 0, so no other thread reads or writes the cell.
        unsafe { *self.shared.job.get() = Some(job) };
        self.shared.pending.set(self.n_workers() - 1);
        self.shared.jobs.add(1);
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.jobs.add(1);
        for thread in self.threads.drain(..) {
            // A worker catches every panic of a job, so it has none of its own to report.
            let _ = thread.join();
        }
    }
}

/// What a worker does from birth to death.
fn work(shared: &Shared, worker: usize) {
    let mut seen = 0;
    loop {
        seen = shared.jobs.wait_until(|n_jobs| n_jobs != seen);
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: the job was written before `jobs` changed and stays until this worker has decremented
        // `pending`.
        if let Some(job) = unsafe { *shared.job.get() } {
            // SAFETY: `run` keeps the closure alive until `pending` is 0.
            let result = call(unsafe { &*job }, worker, shared.n_workers);
            if let Err(payload) = result {
                lock(&shared.panic).get_or_insert(payload);
            }
        }
        shared.pending.sub(1);
    }
}

fn call(body: &(dyn Fn(usize, usize) + Sync), worker: usize, n_workers: usize) -> Result<(), Panic> {
    INSIDE_RUN.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| body(worker, n_workers)));
    INSIDE_RUN.set(false);
    result
}

/// Locks a mutex whose data stays valid even if a holder panicked.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "threads/tests.rs"]
mod tests;
