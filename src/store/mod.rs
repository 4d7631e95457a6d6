//! Where model files come from and where they are kept: references, catalogue, downloads, the folder of models.
//!
//! Only complete, verified files carry their final name. Files in progress end in `.part` and can be resumed.

mod catalogue;
#[cfg(feature = "hub")]
mod download;
mod error;
mod folder;
#[cfg(feature = "hub")]
mod http;
#[cfg(feature = "hub")]
mod hub;
mod names;
#[cfg(feature = "hub")]
mod ollama;
#[cfg(feature = "hub")]
mod online;
mod part;
mod progress;
mod pull;
mod pypi;
mod quants;
mod reference;

pub use catalogue::{CATALOGUE, CatalogueEntry, Source};
pub use error::{ReferenceError, StoreError};
pub use folder::{Removed, Store, StoredModel};
pub use progress::{Progress, Silent};
pub use pull::{Endpoints, PullOptions, Pulled, Puller};
pub use reference::{HubPick, ModelRef};
