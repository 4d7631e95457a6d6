#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::time::Duration;

use super::*;

fn pool(n_threads: usize) -> ThreadPool {
    ThreadPool::new(n_threads).unwrap()
}

#[test]
fn every_worker_is_called_exactly_once() {
    for n_threads in 1..=5 {
        let calls = Mutex::new(Vec::new());
        pool(n_threads).run(&|worker, n_workers| {
            assert_eq!(n_workers, n_threads);
            lock(&calls).push(worker);
        });
        let mut calls = calls.into_inner().unwrap();
        calls.sort_unstable();
        assert_eq!(calls, (0..n_threads).collect::<Vec<_>>());
    }
}

#[test]
fn many_short_runs_lose_no_call() {
    let pool = pool(3);
    let n_calls = AtomicUsize::new(0);
    for _ in 0..20_000 {
        pool.run(&|_, _| {
            n_calls.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(n_calls.into_inner(), 60_000);
}

#[test]
fn workers_that_fell_asleep_wake_up() {
    let pool = pool(3);
    let n_calls = AtomicUsize::new(0);
    for pause_ms in [0, 1, 5, 20, 1, 3] {
        std::thread::sleep(Duration::from_millis(pause_ms));
        pool.run(&|worker, _| {
            std::thread::sleep(Duration::from_millis(worker as u64 * 2));
            n_calls.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(n_calls.into_inner(), 18);
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
    let pool = pool(3);
    for guilty in 0..3 {
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(&|worker, _| assert!(worker != guilty, "worker {worker} fails"));
        }));
        let message = *result.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(message, format!("worker {guilty} fails"));
        let n_calls = AtomicUsize::new(0);
        pool.run(&|_, _| {
            n_calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(n_calls.into_inner(), 3);
    }
}

#[test]
fn a_run_inside_a_run_stays_on_its_thread() {
    let pool = pool(2);
    let n_calls = AtomicUsize::new(0);
    pool.run(&|_, _| {
        pool.run(&|worker, n_workers| {
            assert_eq!((worker, n_workers), (0, 1));
            n_calls.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(n_calls.into_inner(), 2);
}

#[test]
fn two_callers_take_turns() {
    let pool = pool(2);
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    pool.run(&|_, _| {
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            });
        }
    });
}

#[test]
fn chunks_cover_all_items_once() {
    let pool = pool(3);
    for n_items in [0, 1, 7, 64, 1000] {
        for grain in [0, 1, 3, 64, 5000] {
            let seen = Mutex::new(HashSet::new());
            pool.for_chunks(n_items, grain, &|range, worker| {
                assert!(worker < 3 && range.len() <= grain.max(1));
                for item in range {
                    assert!(lock(&seen).insert(item), "item {item} came twice");
                }
            });
            assert_eq!(seen.into_inner().unwrap().len(), n_items);
        }
    }
}

#[test]
fn stripes_cover_a_matrix_once() {
    let pool = pool(3);
    for (row_len, n_rows, grain) in [(10, 3, 4), (1, 1, 1), (17, 1, 100), (8, 5, 0), (0, 0, 3)] {
        let mut data = vec![0u32; row_len * n_rows];
        let stripes = Stripes::new(&mut data, row_len, grain);
        pool.run(&|_, _| {
            while let Some(mut stripe) = stripes.claim() {
                for row in 0..n_rows {
                    stripe.row_mut(row).iter_mut().for_each(|element| *element += 1);
                }
            }
        });
        assert!(data.iter().all(|&n| n == 1), "{row_len} {n_rows} {grain}: {data:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_worker_sleeps() {
    let pool = pool(2);
    let clock = Mutex::new(None);
    pool.run(&|worker, _| {
        if worker == 1 {
            let mut id = 0;
            // SAFETY: the thread is the present one and the pointer is valid for the call.
            unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut id) };
            *lock(&clock) = Some(id);
        }
    });
    let clock = clock.into_inner().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let before = processor_time(clock);
    std::thread::sleep(Duration::from_millis(200));
    let used = processor_time(clock) - before;
    assert!(used < Duration::from_millis(2), "used {used:?} while idle");
}

#[cfg(target_os = "linux")]
fn processor_time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn zero_threads_are_refused_with_a_hint() {
    let error = ThreadPool::new(0).err().unwrap();
    assert_eq!(error.to_string(), "starting the worker pool: thread count: expected at least 1, got 0");
    assert!(error.hint().is_some());
}

#[test]
fn the_default_is_at_least_one_and_at_most_what_is_allowed() {
    let n_allowed = std::thread::available_parallelism().unwrap().get();
    assert!((1..=n_allowed).contains(&default_threads()));
}
