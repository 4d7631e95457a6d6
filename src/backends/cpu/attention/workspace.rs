//! Working memory of attention, one per worker.

use std::sync::Mutex;

use crate::graph::{Attn, PAGE_TOKENS};
use crate::vec_ops::attention::{AttentionKernels, PAGE_KEYS, RunningSoftmax};

/// The working memory of all workers.
#[derive(Default)]
pub(crate) struct Workspaces {
    workers: Vec<Mutex<Workspace>>,
}

impl Workspaces {
    /// Working memory for `n_workers`; worker `i` locks the one at `i`.
    pub(super) fn prepare(&mut self, n_workers: usize) -> &[Mutex<Workspace>] {
        if self.workers.len() < n_workers {
            self.workers.resize_with(n_workers, Mutex::default);
        }
        &self.workers
    }
}

/// What one worker needs for a tile and a KV head. A row is a token and a query head.
#[derive(Default)]
pub(super) struct Workspace {
    /// `[head_dim, n_rows]`.
    pub(super) q: Vec<f32>,
    /// `[32, head_dim]`: keys of a page.
    pub(super) keys: Vec<f32>,
    /// `[stride, 32]`: values of a page.
    pub(super) values: Vec<f32>,
    /// `[32, n_rows]`.
    pub(super) scores: Vec<[f32; PAGE_KEYS]>,
    /// The segment at work.
    pub(super) partial: Partial,
    /// The segments before it.
    pub(super) total: Partial,
    /// `head_dim_v` in whole vectors of 8.
    pub(super) stride: usize,
}

impl Workspace {
    /// Gets everything to its size and empties `total`.
    pub(super) fn start(&mut self, op: &Attn, n_rows: usize) {
        self.stride = op.head_dim_v.next_multiple_of(8);
        self.q.resize(op.head_dim * n_rows, 0.0);
        self.keys.resize(PAGE_TOKENS * op.head_dim, 0.0);
        self.values.clear();
        self.values.resize(self.stride * PAGE_TOKENS, 0.0);
        self.scores.resize(n_rows, [0.0; PAGE_KEYS]);
        for partial in [&mut self.total, &mut self.partial] {
            partial.values.resize(self.stride * n_rows, 0.0);
            partial.states.resize(n_rows, RunningSoftmax::EMPTY);
            partial.clear();
        }
    }
}

/// Weighted values that are not yet divided by the sum of their weights.
#[derive(Default)]
pub(super) struct Partial {
    /// `[stride, n_rows]`.
    pub(super) values: Vec<f32>,
    /// `[n_rows]`.
    pub(super) states: Vec<RunningSoftmax>,
}

impl Partial {
    /// Back to no keys seen.
    pub(super) fn clear(&mut self) {
        self.values.fill(0.0);
        self.states.fill(RunningSoftmax::EMPTY);
    }

    /// Adds a later part of the same rows.
    pub(super) fn merge(&mut self, kernels: &AttentionKernels, later: &Partial) {
        let stride = self.values.len() / self.states.len();
        let rows = self.values.chunks_exact_mut(stride).zip(&mut self.states);
        for ((values, state), (later, other)) in
            rows.zip(later.values.chunks_exact(stride).zip(&later.states))
        {
            (kernels.merge)(values, state, later, *other);
        }
    }
}
