//! The execution engines. Each is a folder that fulfils [`Backend`](crate::graph::Backend).

/// The payload of a launch's node, or an error if the kernel table sent a node of another op here.
macro_rules! payload {
    ($launch:expr, $op:ident) => {
        match &$launch.call.node.op {
            $crate::graph::Op::$op(op) => op,
            other => return Err($launch.broken("op", stringify!($op), other.name())),
        }
    };
}

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod null;

mod pool;
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
