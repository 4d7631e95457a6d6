//! Which backends exist, which this build has, and in which order they are preferred.
//!
//! Identity and preference are two orders. Ids are append-only, since they are bits of masks and parts of
//! saved graphs. Priorities may be chosen anew for a new backend.

use std::fmt;
use std::sync::Arc;

use super::{BackendError, BackendId, Device};
use crate::error::Hint;

/// A backend that minfer knows by name, whether or not this build has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownBackend {
    /// Identity.
    pub id: BackendId,
    /// What users type.
    pub name: &'static str,
    /// What users may type instead.
    pub aliases: &'static [&'static str],
    /// What is printed.
    pub label: &'static str,
    /// Higher is preferred.
    pub priority: u32,
    /// Why a build may lack it.
    pub absent: &'static str,
}

impl KnownBackend {
    /// The host's processor.
    pub const CPU: KnownBackend = KnownBackend {
        id: BackendId::CPU,
        name: "cpu",
        aliases: &["host"],
        label: "CPU",
        priority: 100,
        absent: "every build has it",
    };
    /// Apple's GPU interface.
    pub const METAL: KnownBackend = KnownBackend {
        id: BackendId::METAL,
        name: "metal",
        aliases: &["mps"],
        label: "Metal",
        priority: 300,
        absent: "it needs macOS and a build with the feature `gpu`",
    };
    /// NVIDIA's GPU interface.
    pub const CUDA: KnownBackend = KnownBackend {
        id: BackendId::CUDA,
        name: "cuda",
        aliases: &["nvidia"],
        label: "CUDA",
        priority: 200,
        absent: "it needs a build with a CUDA backend; NVIDIA cards run through Vulkan too",
    };
    /// Khronos' GPU interface.
    pub const VULKAN: KnownBackend = KnownBackend {
        id: BackendId::VULKAN,
        name: "vulkan",
        aliases: &["vk"],
        label: "Vulkan",
        priority: 150,
        absent: "it needs Linux or Windows and a build with the feature `gpu`",
    };

    /// Every backend that minfer knows, by id.
    pub const ALL: [KnownBackend; 4] =
        [KnownBackend::CPU, KnownBackend::METAL, KnownBackend::CUDA, KnownBackend::VULKAN];

    /// Whether the user means this backend by `name`, in any case.
    fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || self.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for BackendId {
    /// Prints the backend's label, or its number if minfer does not know it by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KnownBackend::ALL.iter().find(|known| known.id == *self) {
            Some(known) => f.write_str(known.label),
            None => write!(f, "backend {}", self.0),
        }
    }
}

impl BackendId {
    /// The backend's bit in a fence.
    pub const fn bit(self) -> u32 {
        1 << (self.0 % 32)
    }
}

/// Whether a backend that this build has can be used here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Availability {
    /// There is a device.
    Available,
    /// There is a device that is used only if its backend is named, for this reason.
    OnlyNamed(String),
    /// There is none, for this reason.
    Unavailable(String),
}

/// Opens a device.
pub type OpenDevice = fn() -> Result<Arc<dyn Device>, BackendError>;

/// A backend that this build has.
#[derive(Clone, Copy, Debug)]
pub struct BuiltBackend {
    /// Which one.
    pub known: KnownBackend,
    /// Looks at a glance whether there may be a device, so that nobody waits for a driver that has none.
    /// Asked unless the backend is named.
    pub is_likely: fn() -> bool,
    /// Looks for the device.
    pub availability: fn() -> Availability,
    /// Opens the best device there is; `None` for the host's processor.
    pub open: Option<OpenDevice>,
}

/// The backends of this build, in order of preference.
#[derive(Clone, Debug)]
pub struct Registry {
    backends: Vec<BuiltBackend>,
    switched_off: Vec<(BackendId, String)>,
}

impl Registry {
    /// A registry of `backends`, which it sorts by priority, highest first, then by id.
    pub fn new(mut backends: Vec<BuiltBackend>) -> Registry {
        backends.sort_by_key(|backend| (std::cmp::Reverse(backend.known.priority), backend.known.id));
        Registry { backends, switched_off: Vec::new() }
    }

    /// The backends, most preferred first.
    pub fn backends(&self) -> &[BuiltBackend] {
        &self.backends
    }

    /// The backends' ids, most preferred first.
    pub fn by_priority(&self) -> Vec<BackendId> {
        self.backends.iter().map(|backend| backend.known.id).collect()
    }

    /// Makes a backend unavailable for a reason of the user's, such as a variable that is set. The CPU stays.
    pub fn switch_off(&mut self, id: BackendId, reason: impl Into<String>) {
        if id != BackendId::CPU {
            self.switched_off.push((id, reason.into()));
        }
    }

    /// Whether `backend` can be used on this machine, by this user's settings.
    pub fn availability(&self, backend: &BuiltBackend) -> Availability {
        match self.switched_off.iter().find(|(id, _)| *id == backend.known.id) {
            Some((_, reason)) => Availability::Unavailable(reason.clone()),
            None => (backend.availability)(),
        }
    }

    /// The backends that may be used, as bits by id. `named` is what the user typed, such as `vulkan,cpu`;
    /// without it, every available backend is in. Naming backends leaves out the others and never adds one;
    /// the CPU is always in. Only a named backend can be refused for not being available here.
    pub fn fence(&self, named: Option<&str>) -> Result<u32, FenceError> {
        let names: Vec<&str> =
            named.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            let available = self.backends.iter().filter(|&backend| {
                (backend.is_likely)() && self.availability(backend) == Availability::Available
            });
            return Ok(available.fold(BackendId::CPU.bit(), |bits, backend| bits | backend.known.id.bit()));
        }
        let mut bits = BackendId::CPU.bit();
        for name in names {
            let backend = self.find(name)?;
            if let Availability::Unavailable(reason) = self.availability(backend) {
                return Err(FenceError::NotAvailable { name: name.to_owned(), reason });
            }
            bits |= backend.known.id.bit();
        }
        Ok(bits)
    }

    fn find(&self, name: &str) -> Result<&BuiltBackend, FenceError> {
        if let Some(backend) = self.backends.iter().find(|backend| backend.known.is_called(name)) {
            return Ok(backend);
        }
        let built = || self.backends.iter().map(|backend| backend.known);
        match KnownBackend::ALL.iter().find(|known| known.is_called(name)) {
            Some(known) => Err(FenceError::NotInThisBuild {
                name: name.to_owned(),
                reason: known.absent,
                present: names(built()),
            }),
            None => {
                let others = built().filter(|backend| !KnownBackend::ALL.contains(backend));
                let known = names(KnownBackend::ALL.into_iter().chain(others));
                Err(FenceError::Unknown { name: name.to_owned(), known })
            }
        }
    }
}

fn names(backends: impl Iterator<Item = KnownBackend>) -> String {
    backends.map(|backend| backend.name).collect::<Vec<_>>().join(", ")
}

/// Why the user's choice of backends is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FenceError {
    /// No backend has this name.
    #[error("backend {name}: expected one of {known}, got an unknown name")]
    Unknown {
        /// What the user typed.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The backend exists, but this build lacks it.
    #[error("backend {name}: not in this build: {reason}")]
    NotInThisBuild {
        /// What the user typed.
        name: String,
        /// Why a build may lack it.
        reason: &'static str,
        /// The backends that this build has.
        present: String,
    },
    /// This build has the backend, but this machine has no device for it.
    #[error("backend {name}: not available on this machine: {reason}")]
    NotAvailable {
        /// What the user typed.
        name: String,
        /// What the backend found.
        reason: String,
    },
}

impl Hint for FenceError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            FenceError::Unknown { known, .. } => format!("name one or more of {known}, separated by commas"),
            FenceError::NotInThisBuild { present, .. } => format!("this build has {present}"),
            FenceError::NotAvailable { .. } => {
                "leave the backend out, or name none to use the best one that works".to_owned()
            }
        })
    }
}
