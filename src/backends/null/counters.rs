//! What a null backend counts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::threads::lock;

/// Counts of calls, and the names of the nodes that ran.
#[derive(Default, Debug)]
pub struct Counters {
    pub(super) n_new: AtomicUsize,
    pub(super) n_reused: AtomicUsize,
    pub(super) n_freed: AtomicUsize,
    pub(super) n_reads: AtomicUsize,
    pub(super) n_writes: AtomicUsize,
    pub(super) n_kv: AtomicUsize,
    nodes: Mutex<Vec<String>>,
}

impl Counters {
    /// Buffers that the pool had to make.
    pub fn n_new(&self) -> usize {
        self.n_new.load(Ordering::Relaxed)
    }

    /// Buffers that the pool had spare.
    pub fn n_reused(&self) -> usize {
        self.n_reused.load(Ordering::Relaxed)
    }

    /// Buffers given back.
    pub fn n_freed(&self) -> usize {
        self.n_freed.load(Ordering::Relaxed)
    }

    /// Reads by the host.
    pub fn n_reads(&self) -> usize {
        self.n_reads.load(Ordering::Relaxed)
    }

    /// Writes by the host.
    pub fn n_writes(&self) -> usize {
        self.n_writes.load(Ordering::Relaxed)
    }

    /// KV regions made.
    pub fn n_kv(&self) -> usize {
        self.n_kv.load(Ordering::Relaxed)
    }

    /// Takes the names of the nodes that ran since the last call, in order.
    pub fn take_nodes(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.nodes))
    }

    pub(super) fn count(&self, counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn executed(&self, name: &str) {
        lock(&self.nodes).push(name.to_owned());
    }
}
