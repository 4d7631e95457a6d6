//! The table of architectures.

use super::{ModelError, llama, qwen2, qwen3};
use crate::gguf::Metadata;
use crate::graph::RopeStyle;

/// What an architecture does differently from the shared blocks.
#[derive(PartialEq, Eq, Debug)]
pub struct Architecture {
    /// GGUF's `general.architecture`, which is also the prefix of its hyper-parameter keys.
    pub name: &'static str,
    /// Which elements of a head RoPE pairs.
    pub rope_style: RopeStyle,
    /// Every head of Q and K is normalised before RoPE.
    pub qk_norm: bool,
    /// RoPE's frequencies are divided by `rope_freqs.weight` where the file has it.
    pub rope_freqs: bool,
}

/// Every supported architecture, one row each.
const ARCHITECTURES: [&Architecture; 3] = [&llama::LLAMA, &qwen2::QWEN2, &qwen3::QWEN3];

impl Architecture {
    /// Names of all supported architectures.
    pub fn supported() -> impl Iterator<Item = &'static str> {
        ARCHITECTURES.iter().map(|arch| arch.name)
    }

    /// The architecture that the file names.
    pub fn from_metadata(metadata: &Metadata) -> Result<&'static Architecture, ModelError> {
        let name = metadata.require_str("general.architecture")?;
        let found = ARCHITECTURES.into_iter().find(|arch| arch.name == name);
        found.ok_or_else(|| ModelError::UnknownArchitecture {
            name: name.to_string(),
            supported: Architecture::supported().collect::<Vec<_>>().join(", "),
        })
    }
}
