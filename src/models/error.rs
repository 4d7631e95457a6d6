//! The errors of loading a model.

use crate::error::Hint;
use crate::gguf::MetadataError;
use crate::tensor::{DType, Shape};

/// Why a file does not make a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A key is absent or of another type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// No row of the architecture table has this name.
    #[error("unknown architecture {name:?}: expected one of {supported}")]
    UnknownArchitecture {
        /// What the file says.
        name: String,
        /// All names in the table.
        supported: String,
    },
    /// A hyper-parameter that cannot be.
    #[error("hyper-parameter {key}: expected {expected}, got {got}")]
    BadValue {
        /// The key in the file.
        key: String,
        /// What is possible.
        expected: String,
        /// What the file says.
        got: String,
    },
    /// The file has no tensor of this name.
    #[error("missing tensor {name}: architecture {arch} needs it")]
    MissingTensor {
        /// The tensor.
        name: String,
        /// The model's architecture.
        arch: &'static str,
    },
    /// A tensor's shape contradicts the hyper-parameters.
    #[error("shape of tensor {name}: expected {expected}, got {got}")]
    WrongShape {
        /// The tensor.
        name: String,
        /// What the hyper-parameters ask for.
        expected: Shape,
        /// What the file holds.
        got: Shape,
    },
    /// A vector that kernels read as f32 is stored otherwise.
    #[error("type of tensor {name}: expected {expected}, got {got}")]
    WrongType {
        /// The tensor.
        name: String,
        /// The type kernels read.
        expected: DType,
        /// What the file holds.
        got: DType,
    },
    /// A matrix of a type that is for indices.
    #[error("type of tensor {name}: expected a float or block-quantised type, got {got}")]
    NoWeightType {
        /// The tensor.
        name: String,
        /// What the file holds.
        got: DType,
    },
}

impl Hint for ModelError {
    fn hint(&self) -> Option<String> {
        match self {
            ModelError::UnknownArchitecture { .. } => {
                Some("use a model of one of the listed architectures".to_string())
            }
            ModelError::MissingTensor { .. }
            | ModelError::WrongShape { .. }
            | ModelError::WrongType { .. }
            | ModelError::NoWeightType { .. } => Some(
                "the file was written for another program or another version of the architecture".to_string(),
            ),
            ModelError::Metadata(_) | ModelError::BadValue { .. } => None,
        }
    }
}
