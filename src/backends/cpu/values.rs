//! The sources and the result of one node as slices: the one place where several parts of the pool are
//! borrowed at once.

use crate::graph::{BackendError, BufferId, MAX_SOURCES, NodeCall, Operand, Slot};

/// A source of the running node.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// Bytes apart from the result.
    Apart(&'a [u8]),
    /// The very bytes of the result: the node works in place.
    Result,
    /// Some bytes of the result, but not exactly its own.
    Overlap,
    /// The regions of a layer.
    Kv(u32),
}

/// All values of the running node.
pub(super) struct Values<'a> {
    /// The result's bytes; none if it lies in KV regions.
    pub(super) out: &'a mut [u8],
    /// The sources in order.
    pub(super) srcs: [Source<'a>; MAX_SOURCES],
}

/// Start and length in bytes of a value in memory.
type Place = (*mut u8, usize);

/// Resolves the operands of `call`; `place` finds the memory of a range of a buffer. All ranges must belong
/// to memory that `'a` borrows exclusively.
pub(super) fn resolve<'a>(
    call: &NodeCall<'_>,
    mut place: impl FnMut(BufferId, usize, usize) -> Result<Place, BackendError>,
) -> Result<Values<'a>, BackendError> {
    let mut find = |operand: &Operand| match operand.slot {
        Slot::Kv { .. } => Ok(None),
        Slot::Buffer { id, offset_bytes } => place(id, offset_bytes, bytes_of(call, operand)?).map(Some),
    };
    let result = find(&call.out)?;
    let mut srcs = [Source::Overlap; MAX_SOURCES];
    for (src, operand) in srcs.iter_mut().zip(call.srcs) {
        *src = match (operand.slot, find(operand)?) {
            (Slot::Kv { layer }, _) => Source::Kv(layer),
            (_, Some(place)) if Some(place) == result => Source::Result,
            (_, Some(place)) if overlap(place, result) => Source::Overlap,
            // SAFETY: the range lies in memory borrowed for 'a, apart from the only range that is written.
            (_, Some((start, len))) => Source::Apart(unsafe { std::slice::from_raw_parts(start, len) }),
            (_, None) => Source::Overlap,
        };
    }
    let out: &'a mut [u8] = match result {
        // SAFETY: the range lies in memory borrowed exclusively for 'a; no source slice overlaps it.
        Some((start, len)) => unsafe { std::slice::from_raw_parts_mut(start, len) },
        None => &mut [],
    };
    Ok(Values { out, srcs })
}

fn overlap((start, len): Place, other: Option<Place>) -> bool {
    other.is_some_and(|(other, other_len)| {
        let (a, b) = (start as usize, other as usize);
        a < b + other_len && b < a + len
    })
}

fn bytes_of(call: &NodeCall<'_>, operand: &Operand) -> Result<usize, BackendError> {
    let bytes = operand.dtype.bytes_for(operand.shape.n_elems());
    bytes.ok_or_else(|| {
        call.broken("elements", format!("whole blocks of {}", operand.dtype), operand.shape.n_elems())
    })
}
