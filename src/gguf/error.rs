//! What can be wrong with a GGUF file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::value::Excerpt;
use super::{LooksLike, MetadataError, TensorType};
use crate::error::Hint;
use crate::tensor::DType;

/// A GGUF file that cannot be read: which file, and what is wrong with it. `Display` is one line.
#[derive(Error, Debug)]
#[error("{}: {kind}", path.display())]
pub struct GgufError {
    path: PathBuf,
    kind: GgufErrorKind,
}

impl GgufError {
    pub(super) fn new(path: &Path, kind: impl Into<GgufErrorKind>) -> GgufError {
        GgufError { path: path.to_owned(), kind: kind.into() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong.
    pub fn kind(&self) -> &GgufErrorKind {
        &self.kind
    }
}

/// The part of a file that was being read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    /// Magic number, version and counts.
    Header,
    /// The key with this number, counted from 0.
    Key(usize),
    /// The value of this key.
    Value(String),
    /// The name of the tensor with this number, counted from 0.
    TensorName(usize),
    /// Shape, type and offset of this tensor.
    Tensor(String),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Header => f.write_str("header"),
            Field::Key(i) => write!(f, "metadata key {i}"),
            Field::Value(key) => write!(f, "value of metadata key `{}`", Excerpt(key)),
            Field::TensorName(i) => write!(f, "name of tensor {i}"),
            Field::Tensor(name) => write!(f, "tensor `{}`", Excerpt(name)),
        }
    }
}

/// What is wrong with a file. The fields named `field` say where; `expected` and `got` say the rest.
#[derive(Error, Debug)]
#[allow(missing_docs)]
pub enum GgufErrorKind {
    #[error("cannot {action} the file: {source}")]
    Io { action: &'static str, source: io::Error },
    #[error("not a GGUF file: {0}")]
    NotGguf(LooksLike),
    #[error("header: version: expected 2 or 3, got {0}")]
    Version(u32),
    #[error(
        "header: version: expected a little-endian number, got a big-endian one; this is a big-endian file"
    )]
    BigEndian,
    #[error("{field}: expected {needed} more bytes, but only {left} are left in the file")]
    UnexpectedEnd { field: Field, needed: u64, left: usize },
    #[error("{field}: {count} {what} cannot fit in the {left} bytes left in the file")]
    Count { field: Field, what: &'static str, count: u64, left: usize },
    #[error("{field}: expected 1 to {limit} bytes of UTF-8 text, got {got}")]
    Name { field: Field, limit: usize, got: String },
    #[error("metadata key `{}`: expected it once, but it occurs again", Excerpt(.0))]
    DuplicateKey(String),
    #[error("{field}: expected a value type from 0 to 12, got {id}")]
    ValueType { field: Field, id: u32 },
    #[error("{field}: expected arrays nested at most {limit} deep, got more")]
    ArrayDepth { field: Field, limit: usize },
    #[error("{field}: expected a bool stored as 0 or 1, got {byte}")]
    Bool { field: Field, byte: u8 },
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    #[error("metadata key `general.alignment`: expected a power of two from 8 to {limit}, got {got}")]
    Alignment { limit: u64, got: u64 },
    #[error("tensor `{}`: expected the name once, but it occurs again", Excerpt(.0))]
    DuplicateTensor(String),
    #[error("{field}: expected 1 to 4 dimensions, got {n_dims}")]
    DimensionCount { field: Field, n_dims: u32 },
    #[error("{field}: expected every dimension to be at least 1, got {dims:?}")]
    ZeroDimension { field: Field, dims: Vec<u64> },
    #[error("{field}: expected a size below 2^63 bytes, got shape {dims:?} of {tensor_type}")]
    TensorSize { field: Field, dims: Vec<u64>, tensor_type: TensorType },
    #[error(
        "{field}: expected rows of whole {tensor_type} blocks of {block_elems}, got a row length of {row_len}"
    )]
    PartialBlock { field: Field, tensor_type: TensorType, block_elems: usize, row_len: u64 },
    #[error("{field}: offset: expected a multiple of {alignment}, got {offset}")]
    Misaligned { field: Field, alignment: u64, offset: u64 },
    #[error(
        "{field}: offset: expected {n_bytes} bytes inside the file's {data_bytes} bytes of data, got offset {offset}"
    )]
    OutOfBounds { field: Field, n_bytes: u64, data_bytes: u64, offset: u64 },
    #[error("{field}: offset: expected bytes of its own, but it shares them with `{}`", Excerpt(other))]
    Overlap { field: Field, other: String },
    #[error("truncated file: expected {expected} bytes for all tensors, got {got}")]
    Truncated { expected: u64, got: u64 },
    #[error("{field}: element type: expected one that can be computed with, got {tensor_type}")]
    UnsupportedType { field: Field, tensor_type: TensorType },
    #[error(
        "split.no, split.count: the file is part {no} of {count}, but its name does not end in \
        -{no:05}-of-{count:05}.gguf, so the other parts are not found, such as {missing}"
    )]
    PartUnnamed { no: u64, count: u64, missing: String },
    #[error(
        "split.no, split.count: expected part {named_no} of {named_count} by its name, got part {no} of {count}"
    )]
    PartMismatch { named_no: u64, named_count: u64, no: u64, count: u64 },
    #[error("split.count: expected {named_count} parts by the file's name, but the file has no such key")]
    PartWithoutKeys { named_count: u64 },
    #[error("split.no, split.count: expected split.no below split.count, got {no} and {count}")]
    PartNumber { no: u64, count: u64 },
    #[error("part {no} of {count} is missing: expected {}", path.display())]
    PartMissing { no: u64, count: u64, path: PathBuf },
    #[error("split.tensors.count: expected {expected} tensors in all parts together, got {got}")]
    PartTensorCount { expected: u64, got: u64 },
}

impl Hint for GgufError {
    fn hint(&self) -> Option<String> {
        let unfinished = self.path.extension().is_some_and(|extension| {
            ["part", "partial", "crdownload", "download", "incomplete", "tmp"].iter().any(|e| extension == *e)
        });
        if unfinished {
            return Some("the name says that the download did not finish; fetch the file again".to_owned());
        }
        self.kind.hint()
    }
}

impl Hint for GgufErrorKind {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            GgufErrorKind::NotGguf(looks_like) => looks_like.advice()?,
            GgufErrorKind::Version(0 | 1) => "convert the model again with current tools",
            GgufErrorKind::Version(_) => "the file may be newer than this program; look for an update",
            GgufErrorKind::BigEndian => "download a little-endian version of the model",
            GgufErrorKind::UnexpectedEnd { .. } | GgufErrorKind::Truncated { .. } => {
                "the download may not have finished; compare its size with the source and fetch it again"
            }
            GgufErrorKind::Io { action: "map", .. } => "try --no-mmap, which reads the file into memory",
            GgufErrorKind::PartMissing { .. } | GgufErrorKind::PartUnnamed { .. } => {
                "keep all parts in one directory under their original names"
            }
            GgufErrorKind::UnsupportedType { .. } => return Some(supported_types()),
            GgufErrorKind::Metadata(error) => return error.hint(),
            _ => return None,
        };
        Some(advice.to_owned())
    }
}

fn supported_types() -> String {
    let names: Vec<&str> = DType::all().map(DType::name).collect();
    format!("supported types: {}", names.join(" "))
}
