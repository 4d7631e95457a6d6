//! Which backends exist, which this build has, and in which order they are preferred.
//!
//! Identity and preference are two orders. Ids are append-only, since they are bits of masks and parts of saved
//! graphs. Priorities may be chosen anew for a new backend.

use std::fmt;

use super::BackendId;
use crate::error::Hint;

/// A backend that minfer knows by name, whether or not this build has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
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

/// Every backend that minfer knows, by id.
pub const KNOWN: [Known; 4] = [
    Known {
        id: BackendId::CPU,
        name: "cpu",
        aliases: &["host"],
        label: "CPU",
        priority: 100,
        absent: "every build has it",
    },
    Known {
        id: BackendId::METAL,
        name: "metal",
        aliases: &["mps"],
        label: "Metal",
        priority: 300,
        absent: "it needs macOS and a build with a Metal backend",
    },
    Known {
        id: BackendId::CUDA,
        name: "cuda",
        aliases: &["nvidia"],
        label: "CUDA",
        priority: 200,
        absent: "it needs a build with a CUDA backend",
    },
    Known {
        id: BackendId::VULKAN,
        name: "vulkan",
        aliases: &["vk"],
        label: "Vulkan",
        priority: 150,
        absent: "it needs a build with a Vulkan backend",
    },
];

impl fmt::Display for BackendId {
    /// Prints the backend's label, or its number if minfer does not know it by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KNOWN.iter().find(|known| known.id == *self) {
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
    /// There is none, for this reason.
    Unavailable(String),
}

/// A backend that this build has.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Identity.
    pub id: BackendId,
    /// What users type.
    pub name: &'static str,
    /// What users may type instead.
    pub aliases: &'static [&'static str],
    /// Higher is preferred.
    pub priority: u32,
    /// Looks for the device.
    pub availability: fn() -> Availability,
}

impl Entry {
    /// The entry of a known backend.
    pub fn known(id: BackendId, availability: fn() -> Availability) -> Option<Entry> {
        let known = KNOWN.iter().find(|known| known.id == id)?;
        let Known { name, aliases, priority, .. } = *known;
        Some(Entry { id, name, aliases, priority, availability })
    }
}

/// The backends of this build, in order of preference.
#[derive(Clone, Debug)]
pub struct Registry {
    entries: Vec<Entry>,
    switched_off: Vec<(BackendId, String)>,
}

impl Registry {
    /// A registry of `entries`, which it sorts by priority, highest first, then by id.
    pub fn new(mut entries: Vec<Entry>) -> Registry {
        entries.sort_by_key(|entry| (std::cmp::Reverse(entry.priority), entry.id));
        Registry { entries, switched_off: Vec::new() }
    }

    /// The backends, most preferred first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The backends' ids, most preferred first.
    pub fn by_priority(&self) -> Vec<BackendId> {
        self.entries.iter().map(|entry| entry.id).collect()
    }

    /// Makes a backend unavailable for a reason of the user's, such as a variable that is set. The CPU stays.
    pub fn switch_off(&mut self, id: BackendId, reason: impl Into<String>) {
        if id != BackendId::CPU {
            self.switched_off.push((id, reason.into()));
        }
    }

    /// Whether `entry` can be used on this machine, by this user's settings.
    pub fn availability(&self, entry: &Entry) -> Availability {
        match self.switched_off.iter().find(|(id, _)| *id == entry.id) {
            Some((_, reason)) => Availability::Unavailable(reason.clone()),
            None => (entry.availability)(),
        }
    }

    /// The backends that may be used, as bits by id. `named` is what the user typed, such as `vulkan,cpu`; without
    /// it, every available backend is in. Naming backends leaves out the others and never adds one; the CPU is
    /// always in. Only a named backend can be refused for not being available here.
    pub fn fence(&self, named: Option<&str>) -> Result<u32, FenceError> {
        let names: Vec<&str> =
            named.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            let available = self.entries.iter().filter(|&e| self.availability(e) == Availability::Available);
            return Ok(available.fold(BackendId::CPU.bit(), |bits, entry| bits | entry.id.bit()));
        }
        let mut bits = BackendId::CPU.bit();
        for name in names {
            let entry = self.find(name)?;
            if let Availability::Unavailable(reason) = self.availability(entry) {
                return Err(FenceError::NotAvailable { name: name.to_owned(), reason });
            }
            bits |= entry.id.bit();
        }
        Ok(bits)
    }

    fn find(&self, name: &str) -> Result<&Entry, FenceError> {
        let same = |known: &str| known.eq_ignore_ascii_case(name);
        let entry = self.entries.iter().find(|e| same(e.name) || e.aliases.iter().any(|alias| same(alias)));
        if let Some(entry) = entry {
            return Ok(entry);
        }
        match KNOWN.iter().find(|k| same(k.name) || k.aliases.iter().any(|alias| same(alias))) {
            Some(known) => Err(FenceError::NotInThisBuild {
                name: name.to_owned(),
                reason: known.absent,
                present: self.names(),
            }),
            None => Err(FenceError::Unknown { name: name.to_owned(), known: self.known_names() }),
        }
    }

    fn names(&self) -> String {
        self.entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
    }

    fn known_names(&self) -> String {
        let mut names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
        names.extend(
            self.entries
                .iter()
                .map(|entry| entry.name)
                .filter(|name| !KNOWN.iter().any(|known| known.name == *name)),
        );
        names.join(", ")
    }
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
