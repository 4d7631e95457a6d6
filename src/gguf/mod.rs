//! GGUF files: reading (one file or a set of parts, mapped, safe with hostile input) and writing.
//!
//! A file is a header, metadata (ordered key-value pairs), a table of tensors, padding, and the tensors'
//! bytes, all little-endian. [`Gguf::open`] checks every count, length, offset and size against the file
//! before anything is allocated or handed out, so no later access to a tensor can leave the mapping. It reads
//! no tensor data.
//!
//! A mapped file must not be truncated or rewritten in place while it is open: the operating system would
//! stop the process at the next access. Replacing it by renaming another file over it is safe, and all
//! writers of this crate do that.

mod array;
mod cursor;
mod error;
mod layout;
mod metadata;
mod parse;
mod reader;
mod resident;
mod sniff;
mod source;
mod split;
mod tensor_type;
mod value;
mod writer;

pub use array::{Array, StrArray};
pub use error::{Field, GgufError, GgufErrorKind};
pub use layout::TensorInfo;
pub use metadata::{Metadata, MetadataError};
pub use reader::Gguf;
pub use resident::make_resident;
pub use sniff::LooksLike;
pub use source::OpenOptions;
pub(crate) use split::PartName;
pub use tensor_type::TensorType;
pub use value::{Value, ValueType};
pub use writer::{GgufBuilder, WriteError};

/// The key that says how tensors are aligned in the file.
const ALIGNMENT_KEY: &str = "general.alignment";

/// The alignment of tensors in a file that does not say.
const DEFAULT_ALIGNMENT: u64 = 32;

/// Largest alignment accepted; more would only waste space.
const MAX_ALIGNMENT: u64 = 1 << 20;

/// Longest key the format allows.
const MAX_KEY_BYTES: usize = 65535;

/// Longest tensor name the format allows.
const MAX_TENSOR_NAME_BYTES: usize = 64;

/// Whether tensors may start at multiples of `alignment`: a power of two that suits 8-byte elements.
fn is_valid_alignment(alignment: u64) -> bool {
    alignment.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&alignment)
}
