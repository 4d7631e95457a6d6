//! The enabled backends of a context, and what graphs have taken from them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{Backend, BackendId, BufferId, FusedOp, GraphError, KvShape};
use crate::threads::lock;

/// Backend instances by id, with their memory budgets and the keys and values that they hold.
///
/// Buffers are handed out as leases. A lease that is dropped puts its buffer into a bin, which is emptied
/// into the backend's pool before the next allocation; so dropping a graph is enough to free its memory.
#[derive(Default)]
pub struct BackendSet {
    members: Vec<Member>,
    refuses_fusions: bool,
    kv: BTreeMap<u32, (BackendId, KvShape)>,
}

struct Member {
    id: BackendId,
    backend: Box<dyn Backend>,
    budget_bytes: Option<usize>,
    used_bytes: usize,
    /// Number of spare buffers in the pool by size.
    spare: BTreeMap<usize, usize>,
    bin: Arc<Bin>,
}

type Bin = Mutex<Vec<(BufferId, usize)>>;

/// A pool buffer in use; dropping it gives it back.
pub(crate) struct Lease {
    /// The buffer.
    pub(crate) id: BufferId,
    bytes: usize,
    bin: Arc<Bin>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        lock(&self.bin).push((self.id, self.bytes));
    }
}

impl BackendSet {
    /// No backend.
    pub fn new() -> BackendSet {
        BackendSet::default()
    }

    /// Enables a backend under `id`. A backend that had the id before is dropped with all it holds, so graphs
    /// that were compiled for it must not run any more.
    pub fn insert(&mut self, id: BackendId, backend: Box<dyn Backend>) {
        self.members.retain(|member| member.id != id);
        self.kv.retain(|_, (home, _)| *home != id);
        let bin = Arc::default();
        let member = Member { id, backend, budget_bytes: None, used_bytes: 0, spare: BTreeMap::new(), bin };
        self.members.push(member);
        self.members.sort_by_key(|member| member.id);
    }

    /// Limits what weights, keys and values, and graphs together may take of the backend's memory, in bytes.
    pub fn set_budget(&mut self, id: BackendId, bytes: usize) {
        if let Some(member) = self.member_mut(id) {
            member.budget_bytes = Some(bytes);
        }
    }

    /// Has the fusion pass make nothing from now on: what it would make is going to be compared with this.
    pub fn refuse_fusions(&mut self) {
        self.refuses_fusions = true;
    }

    /// Whether the fusion pass may produce `fused` for nodes of `id`.
    pub(crate) fn fuses(&self, id: BackendId, fused: FusedOp) -> bool {
        !self.refuses_fusions && self.get(id).is_some_and(|backend| backend.supports_fused(fused))
    }

    /// The backend `id`, if it is enabled.
    pub fn get(&self, id: BackendId) -> Option<&dyn Backend> {
        self.members.iter().find(|member| member.id == id).map(|member| &*member.backend)
    }

    /// The backend `id`, if it is enabled.
    pub fn get_mut(&mut self, id: BackendId) -> Option<&mut (dyn Backend + 'static)> {
        self.member_mut(id).map(|member| &mut *member.backend)
    }

    /// The backend `id`, or the error that it is not enabled.
    pub(crate) fn enabled(&mut self, id: BackendId) -> Result<&mut (dyn Backend + 'static), GraphError> {
        self.get_mut(id).ok_or(GraphError::BackendNotEnabled { backend: id })
    }

    /// Ids of the enabled backends, ascending.
    pub fn ids(&self) -> impl Iterator<Item = BackendId> {
        self.members.iter().map(|member| member.id)
    }

    /// Bytes that living graphs have taken from the pool of `id`.
    pub fn used_bytes(&mut self, id: BackendId) -> usize {
        self.member_mut(id).map_or(0, |member| {
            member.empty_bin();
            member.used_bytes
        })
    }

    /// Copies KV rows `from..from + n` to `to..to + n` in all layers of all backends.
    pub fn copy_cells(&mut self, from: usize, to: usize, n: usize) -> Result<(), GraphError> {
        for member in &mut self.members {
            let backend = member.id;
            if self.kv.values().any(|(home, _)| *home == backend) {
                let copied = member.backend.copy_cells(from, to, n);
                copied.map_err(|source| GraphError::on_backend("copying KV rows", backend, source))?;
            }
        }
        Ok(())
    }

    /// Fails if `buffers` (bytes each) and `kv` regions do not fit into the budget of `id`, or if the regions
    /// exist in another place or form.
    pub(crate) fn check(
        &mut self,
        id: BackendId,
        buffers: &[usize],
        kv: &[(u32, KvShape)],
    ) -> Result<(), GraphError> {
        for (layer, shape) in kv {
            self.check_kv(id, *layer, shape)?;
        }
        let old: usize =
            self.kv.values().filter(|(home, _)| *home == id).map(|(_, shape)| kv_bytes(shape)).sum();
        let new =
            kv.iter().filter(|(layer, _)| !self.kv.contains_key(layer)).map(|(_, shape)| kv_bytes(shape));
        let kv_bytes = old + new.sum::<usize>();
        let Some(member) = self.member_mut(id) else { return Ok(()) };
        member.empty_bin();
        let Some(budget_bytes) = member.budget_bytes else { return Ok(()) };
        let weights_bytes = member.backend.weights_bytes();
        let values_bytes = member.pool_bytes_with(buffers);
        if weights_bytes.saturating_add(kv_bytes).saturating_add(values_bytes) > budget_bytes {
            return Err(GraphError::Budget {
                backend: id,
                budget_bytes,
                weights_bytes,
                kv_bytes,
                values_bytes,
            });
        }
        Ok(())
    }

    fn check_kv(&self, id: BackendId, layer: u32, shape: &KvShape) -> Result<(), GraphError> {
        let text = |id: BackendId, kv: &KvShape| {
            let KvShape { n_cells, k_row_elems, v_row_elems, format } = *kv;
            format!("{n_cells} rows of {k_row_elems} + {v_row_elems} {} on {id}", format.dtype())
        };
        match self.kv.get(&layer) {
            Some((home, known)) if (*home, known) != (id, shape) => {
                Err(GraphError::KvChanged { layer, expected: text(*home, known), got: text(id, shape) })
            }
            _ => Ok(()),
        }
    }

    /// Takes a buffer of exactly `bytes` from the pool of `id`.
    pub(crate) fn lease(&mut self, id: BackendId, bytes: usize) -> Result<Lease, GraphError> {
        let member = self.member_mut(id).ok_or(GraphError::BackendNotEnabled { backend: id })?;
        member.empty_bin();
        let buffer = member.backend.alloc(bytes).map_err(|source| GraphError::allocate(id, source))?;
        member.used_bytes += bytes;
        if let Some(n) = member.spare.get_mut(&bytes) {
            *n = n.saturating_sub(1);
        }
        Ok(Lease { id: buffer, bytes, bin: member.bin.clone() })
    }

    /// Makes sure that the regions of `layer` exist. Regions that exist keep what is in them.
    pub(crate) fn ensure_kv(&mut self, id: BackendId, layer: u32, shape: KvShape) -> Result<(), GraphError> {
        self.check_kv(id, layer, &shape)?;
        if self.kv.contains_key(&layer) {
            return Ok(());
        }
        self.enabled(id)?.alloc_kv(layer, shape).map_err(|source| GraphError::allocate(id, source))?;
        self.kv.insert(layer, (id, shape));
        Ok(())
    }

    fn member_mut(&mut self, id: BackendId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }
}

impl Member {
    fn empty_bin(&mut self) {
        let returned = std::mem::take(&mut *lock(&self.bin));
        for (buffer, bytes) in returned {
            self.backend.free(buffer);
            self.used_bytes -= bytes;
            *self.spare.entry(bytes).or_default() += 1;
        }
    }

    /// Size of the pool after `buffers` are taken from it: spare buffers of the same size serve first.
    fn pool_bytes_with(&self, buffers: &[usize]) -> usize {
        let mut spare = self.spare.clone();
        let mut bytes = self.backend.pool_bytes();
        for size in buffers {
            match spare.get_mut(size) {
                Some(n) if *n > 0 => *n -= 1,
                _ => bytes = bytes.saturating_add(*size),
            }
        }
        bytes
    }
}

fn kv_bytes(shape: &KvShape) -> usize {
    let spec = shape.spec();
    spec.dtype.bytes_for(spec.shape.n_elems()).unwrap_or(usize::MAX)
}
