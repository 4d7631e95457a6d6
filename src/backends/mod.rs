//! The execution engines. Each is a folder that fulfils [`Backend`](crate::graph::Backend).

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod null;

mod rotation;

use crate::graph::{Availability, BuiltBackend, KnownBackend, Registry};

/// What this build has, one line per backend.
pub fn builtin() -> Registry {
    Registry::new(vec![
        BuiltBackend {
            known: KnownBackend::CPU,
            is_likely: || true,
            availability: || Availability::Available,
            open: None,
        },
        #[cfg(feature = "gpu")]
        gpu::BUILTIN,
    ])
}
