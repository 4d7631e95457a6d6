//! Writes GGUF files.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{
    ALIGNMENT_KEY, Array, DEFAULT_ALIGNMENT, MAX_ALIGNMENT, MAX_KEY_BYTES, MAX_TENSOR_NAME_BYTES, Metadata,
    MetadataError, TensorType, Value, is_valid_alignment,
};
use crate::error::Hint;
use crate::tensor::{DType, Shape};

/// The version written.
const VERSION: u32 = 3;

/// A model that cannot be written.
#[derive(Error, Debug)]
pub enum WriteError {
    /// The file system refused.
    #[error("{}: cannot write the file: {source}", path.display())]
    Io {
        /// The file to be written.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A shape that no tensor of the type can have.
    #[error("tensor `{name}`: expected extents of at least 1 and rows of whole {dtype} blocks, got {shape}")]
    TensorShape {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: Shape,
        /// Its type.
        dtype: DType,
    },
    /// A tensor's bytes do not fill its shape.
    #[error("tensor `{name}`: expected {expected} bytes for {shape} of {dtype}, got {got}")]
    TensorSize {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: Shape,
        /// Its type.
        dtype: DType,
        /// The size the shape asks for.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// A name the format does not allow.
    #[error("name `{name}`: expected 1 to {limit} bytes, got {}", name.len())]
    Name {
        /// The key or tensor name.
        name: String,
        /// Longest name allowed, in bytes.
        limit: usize,
    },
    /// A tensor name given twice.
    #[error("tensor `{0}`: expected the name once, got it again")]
    DuplicateTensor(String),
    /// `general.alignment` is not a power of two that a reader accepts.
    #[error("metadata key `{ALIGNMENT_KEY}`: expected a power of two from 8 to {MAX_ALIGNMENT}, got {0}")]
    Alignment(u64),
    /// `general.alignment` is not a number.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}

impl Hint for WriteError {}

struct Entry<'a> {
    name: String,
    shape: Shape,
    tensor_type: TensorType,
    bytes: Cow<'a, [u8]>,
}

/// A model being put together: metadata in order, then tensors in order. Tensor bytes are borrowed where
/// possible.
#[derive(Default)]
pub struct GgufBuilder<'a> {
    metadata: Metadata,
    tensors: Vec<Entry<'a>>,
}

impl<'a> GgufBuilder<'a> {
    /// A model with this metadata and no tensor.
    pub fn new(metadata: Metadata) -> GgufBuilder<'a> {
        GgufBuilder { metadata, tensors: Vec::new() }
    }

    /// The metadata, for changes.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Appends a tensor of `shape` (fastest extent first). `bytes` are its rows as `dtype` stores them.
    pub fn tensor(
        &mut self,
        name: &str,
        dtype: DType,
        shape: Shape,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<&mut GgufBuilder<'a>, WriteError> {
        check_name(name, MAX_TENSOR_NAME_BYTES)?;
        let (name, bytes) = (name.to_owned(), bytes.into());
        let Some(expected) = size_in_bytes(dtype, shape) else {
            return Err(WriteError::TensorShape { name, shape, dtype });
        };
        if expected != bytes.len() {
            return Err(WriteError::TensorSize { name, shape, dtype, expected, got: bytes.len() });
        }
        if self.tensors.iter().any(|entry| entry.name == name) {
            return Err(WriteError::DuplicateTensor(name));
        }
        self.tensors.push(Entry { name, shape, tensor_type: dtype.into(), bytes });
        Ok(self)
    }

    /// Appends a tensor of f32 values. Fails if they do not fill `shape`.
    pub fn tensor_f32(
        &mut self,
        name: &str,
        shape: Shape,
        values: &[f32],
    ) -> Result<&mut GgufBuilder<'a>, WriteError> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, DType::F32, shape, bytes)
    }

    /// The file as bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        let alignment = self.checked_alignment()?;
        let mut bytes = Vec::new();
        self.write(&mut bytes, alignment).expect("writing to a Vec cannot fail");
        Ok(bytes)
    }

    /// Writes the file at `path`. It appears complete or not at all: a temporary file beside it is renamed at
    /// the end, so a model that is mapped under the same name stays intact.
    pub fn write_to(&self, path: &Path) -> Result<(), WriteError> {
        let alignment = self.checked_alignment()?;
        let failed = |source| WriteError::Io { path: path.to_owned(), source };
        let file_name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        let mut temporary = file_name.to_owned();
        temporary.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(temporary);
        let written = self.write_file(&temporary, alignment).and_then(|()| fs::rename(&temporary, path));
        written.map_err(|source| {
            // The first error is the one to report; a temporary file that was never created needs no removal.
            let _ = fs::remove_file(&temporary);
            failed(source)
        })
    }

    fn write_file(&self, path: &Path, alignment: u64) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        self.write(&mut out, alignment)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    /// Checks the metadata and returns the alignment it asks for.
    fn checked_alignment(&self) -> Result<u64, WriteError> {
        self.metadata.iter().try_for_each(|(key, _)| check_name(key, MAX_KEY_BYTES))?;
        let alignment = self.metadata.u64(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
        if is_valid_alignment(alignment) { Ok(alignment) } else { Err(WriteError::Alignment(alignment)) }
    }

    fn write(&self, out: impl Write, alignment: u64) -> io::Result<()> {
        let mut out = Counted { out, n_bytes: 0 };
        out.write_all(b"GGUF")?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&(self.tensors.len() as u64).to_le_bytes())?;
        out.write_all(&(self.metadata.len() as u64).to_le_bytes())?;
        for (key, value) in self.metadata.iter() {
            string(&mut out, key.as_bytes())?;
            out.write_all(&value.value_type().id().to_le_bytes())?;
            write_value(&mut out, value)?;
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            write_entry(&mut out, tensor, offset)?;
            offset = (offset + tensor.bytes.len() as u64).next_multiple_of(alignment);
        }
        out.pad(alignment)?;
        for tensor in &self.tensors {
            out.write_all(&tensor.bytes)?;
            out.pad(alignment)?;
        }
        Ok(())
    }
}

fn check_name(name: &str, limit: usize) -> Result<(), WriteError> {
    let valid = (1..=limit).contains(&name.len());
    if valid { Ok(()) } else { Err(WriteError::Name { name: name.to_owned(), limit }) }
}

/// The size of a tensor; `None` for an empty extent, a row that ends inside a block, or a size that
/// overflows.
fn size_in_bytes(dtype: DType, shape: Shape) -> Option<usize> {
    let n_elems = shape.0.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent))?;
    if n_elems == 0 || !shape.row_len().is_multiple_of(dtype.block_elems()) {
        return None;
    }
    dtype.bytes_for(n_elems)
}

/// Counts what is written, for padding.
struct Counted<W> {
    out: W,
    n_bytes: u64,
}

impl<W: Write> Counted<W> {
    fn pad(&mut self, alignment: u64) -> io::Result<()> {
        let n_bytes = self.n_bytes.next_multiple_of(alignment) - self.n_bytes;
        io::copy(&mut io::Read::take(io::repeat(0), n_bytes), self).map(|_| ())
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.n_bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn string(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(bytes)
}

fn write_entry(out: &mut impl Write, tensor: &Entry, offset: u64) -> io::Result<()> {
    let extents = &tensor.shape.0;
    let n_dims = extents.iter().rposition(|&extent| extent != 1).map_or(1, |last| last + 1);
    string(out, tensor.name.as_bytes())?;
    out.write_all(&(n_dims as u32).to_le_bytes())?;
    for &extent in &extents[..n_dims] {
        out.write_all(&(extent as u64).to_le_bytes())?;
    }
    out.write_all(&tensor.tensor_type.id().to_le_bytes())?;
    out.write_all(&offset.to_le_bytes())
}

fn write_value(out: &mut impl Write, value: &Value) -> io::Result<()> {
    match value {
        Value::U8(x) => out.write_all(&x.to_le_bytes()),
        Value::I8(x) => out.write_all(&x.to_le_bytes()),
        Value::U16(x) => out.write_all(&x.to_le_bytes()),
        Value::I16(x) => out.write_all(&x.to_le_bytes()),
        Value::U32(x) => out.write_all(&x.to_le_bytes()),
        Value::I32(x) => out.write_all(&x.to_le_bytes()),
        Value::U64(x) => out.write_all(&x.to_le_bytes()),
        Value::I64(x) => out.write_all(&x.to_le_bytes()),
        Value::F32(x) => out.write_all(&x.to_le_bytes()),
        Value::F64(x) => out.write_all(&x.to_le_bytes()),
        Value::Bool(x) => out.write_all(&[u8::from(*x)]),
        Value::Str(text) => string(out, text.as_bytes()),
        Value::NonUtf8(bytes) => string(out, bytes),
        Value::Array(array) => write_array(out, array),
    }
}

fn write_array(out: &mut impl Write, array: &Array) -> io::Result<()> {
    out.write_all(&array.element_type().id().to_le_bytes())?;
    out.write_all(&(array.len() as u64).to_le_bytes())?;
    match array {
        Array::U8(v) => out.write_all(v),
        Array::I8(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        Array::U16(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        Array::I16(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        Array::U32(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        Array::I32(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        Array::U64(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        Array::I64(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        Array::F32(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        Array::F64(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),
        Array::Bool(v) => v.iter().try_for_each(|&x| out.write_all(&[u8::from(x)])),
        Array::Str(strings) => strings.iter().try_for_each(|text| string(out, text)),
        Array::Nested(arrays) => arrays.iter().try_for_each(|array| write_array(out, array)),
    }
}
