//! A device that was opened: where weights go once, for all contexts that compute with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Backend, BackendError};
use crate::tensor::TensorMap;

/// What kind of device computes, in order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeviceKind {
    /// A card with memory of its own.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU passed through to a virtual machine, or one that does not say what it is.
    Other,
    /// A program on the host's processor that acts as a GPU.
    Software,
}

/// What a device says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// The device's name.
    pub name: String,
    /// What kind it is.
    pub kind: DeviceKind,
    /// The driver and its version.
    pub driver: String,
    /// Bytes that weights, keys and values, and graphs together may take; `None` if the device does not tell.
    pub memory_bytes: Option<usize>,
    /// Bytes that the keys or the values of one layer may take; `None` for any number.
    pub max_region_bytes: Option<usize>,
    /// What else matters to the kernels: limits and features, as `name value`.
    pub details: Vec<String>,
}

/// A device that was opened. It holds the weights of one model, and makes backends that share them.
pub trait Device: Send + Sync {
    /// What the device says about itself.
    fn info(&self) -> &DeviceInfo;

    /// Bytes that a weight called `name` takes on the device; 0 if there is no such weight.
    fn weight_bytes(&self, weights: &TensorMap, name: &str) -> usize {
        weights.get(name).map_or(0, |tensor| tensor.bytes.len())
    }

    /// Copies the weights called `names` to the device. Each of `groups` lists weights that one kernel reads
    /// one after the other; as far as they have one type and row length they are laid out so. On an error
    /// nothing stays resident.
    fn upload(
        &self,
        weights: &TensorMap,
        names: &BTreeSet<String>,
        groups: &[Vec<String>],
    ) -> Result<(), BackendError>;

    /// Bytes of the weights on the device.
    fn weights_bytes(&self) -> usize;

    /// Gives the device up. Everything that is tried on it from now on is [`BackendError::DeviceLost`], as
    /// after a driver crash.
    fn destroy(&self);

    /// A backend with its own buffers and KV regions, and the device's weights.
    fn backend(self: Arc<Self>) -> Result<Box<dyn Backend>, BackendError>;
}
