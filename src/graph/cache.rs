//! The graph cache: the most recently used executables, one per params.
//!
//! Equal params mean identical graphs, so params alone are compared. Everything that changes topology or assignment
//! is a field of theirs; toggling it means another entry, and both stay. Keys and values live in the backend set, so
//! evicting a graph loses nothing but its buffers, which go back to the pools.

use super::{BackendSet, Executable, Graph, GraphError, GraphParams, Policy};

/// Graphs kept unless said otherwise.
pub const DEFAULT_GRAPHS: usize = 8;

/// The most recently used executables.
pub struct GraphCache {
    /// Most recently used first.
    entries: Vec<(GraphParams, Executable)>,
    capacity: usize,
    n_builds: u64,
    n_hits: u64,
}

impl Default for GraphCache {
    fn default() -> GraphCache {
        GraphCache::new(DEFAULT_GRAPHS)
    }
}

impl GraphCache {
    /// A cache of at most `capacity` graphs, at least one.
    pub fn new(capacity: usize) -> GraphCache {
        GraphCache { entries: Vec::new(), capacity: capacity.max(1), n_builds: 0, n_hits: 0 }
    }

    /// The executable for `params`, made by `build` from the enabled backends and compiled if it is not there. Room
    /// is made first, so that the pools can reuse what the evicted graph held.
    pub fn get_or_build<E: From<GraphError>>(
        &mut self,
        params: &GraphParams,
        set: &mut BackendSet,
        policy: &Policy,
        build: impl FnOnce(&BackendSet) -> Result<Graph, E>,
    ) -> Result<&mut Executable, E> {
        match self.entries.iter().position(|(known, _)| known == params) {
            Some(index) => {
                self.n_hits += 1;
                self.entries[..=index].rotate_right(1);
            }
            None => {
                self.entries.retain(|(known, _)| known.weights_version == params.weights_version);
                self.entries.truncate(self.capacity - 1);
                let executable = Executable::compile(build(set)?, set, policy)?;
                self.n_builds += 1;
                self.entries.insert(0, (*params, executable));
            }
        }
        Ok(&mut self.entries[0].1)
    }

    /// Drops every graph.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Graphs in the cache.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no graph.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Graphs built so far.
    pub fn n_builds(&self) -> u64 {
        self.n_builds
    }

    /// Requests served without a build so far.
    pub fn n_hits(&self) -> u64 {
        self.n_hits
    }
}
