//! The execution engines. Each is a folder that fulfils [`Backend`](crate::graph::Backend).

pub mod cpu;
pub mod null;

use crate::graph::{Availability, BackendId, Entry, Registry};

/// What this build has, one line per backend.
pub fn builtin() -> Registry {
    let entries = [
        Entry::known(BackendId::CPU, || Availability::Available), //
    ];
    Registry::new(entries.into_iter().flatten().collect())
}
