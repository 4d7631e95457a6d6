//! Parses the header, the metadata and the tensor table of one file.

use super::cursor::Cursor;
use super::layout::{self, TensorEntry};
use super::{
    ALIGNMENT_KEY, Array, DEFAULT_ALIGNMENT, Field, GgufErrorKind, LooksLike, MAX_ALIGNMENT, MAX_KEY_BYTES,
    MAX_TENSOR_NAME_BYTES, Metadata, StrArray, TensorInfo, TensorType, Value, ValueType, is_valid_alignment,
};

/// How deep arrays of arrays may go. The format sets no limit; no known file exceeds 2.
const MAX_ARRAY_DEPTH: usize = 8;
/// The least a metadata entry takes: length and one byte of key, value type, one byte of value.
const MIN_ENTRY_BYTES: usize = 8 + 1 + 4 + 1;
/// The least a tensor entry takes: length and one byte of name, number of dimensions, one dimension, type,
/// offset.
const MIN_TENSOR_BYTES: usize = 8 + 1 + 4 + 8 + 4 + 8;

/// One file without its tensor data.
pub(super) struct Index {
    pub(super) version: u32,
    pub(super) metadata: Metadata,
    /// Tensors in file order; their `part` is 0.
    pub(super) tensors: Vec<TensorInfo>,
}

/// Parses a whole file. Every tensor it returns lies inside `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Result<Index, GgufErrorKind> {
    if !bytes.starts_with(&b"GGUF"[..bytes.len().min(4)]) || bytes.is_empty() {
        return Err(GgufErrorKind::NotGguf(LooksLike::guess(bytes)));
    }
    let mut cursor = Cursor::new(bytes);
    cursor.take(4)?;
    let version = checked_version(cursor.u32()?)?;
    let (n_tensors, n_entries) = (cursor.u64()?, cursor.u64()?);
    let n_entries = cursor.bounded(n_entries, MIN_ENTRY_BYTES, "metadata entries")?;
    let n_tensors = cursor.bounded(n_tensors, MIN_TENSOR_BYTES, "tensors")?;
    let metadata = metadata(&mut cursor, n_entries)?;
    let alignment = alignment(&metadata)?;
    let entries: Vec<TensorEntry> =
        (0..n_tensors).map(|i| tensor_entry(&mut cursor, i)).collect::<Result<_, _>>()?;
    let tensors = layout::place(entries, cursor.position() as u64, bytes.len() as u64, alignment)?;
    Ok(Index { version, metadata, tensors })
}

fn checked_version(version: u32) -> Result<u32, GgufErrorKind> {
    match version {
        2 | 3 => Ok(version),
        _ if matches!(version.swap_bytes(), 1..=3) => Err(GgufErrorKind::BigEndian),
        _ => Err(GgufErrorKind::Version(version)),
    }
}

fn metadata(cursor: &mut Cursor, n_entries: usize) -> Result<Metadata, GgufErrorKind> {
    let mut metadata = Metadata::default();
    for i in 0..n_entries {
        cursor.field = Field::Key(i);
        let key = cursor.name(MAX_KEY_BYTES)?;
        cursor.field = Field::Value(key.to_owned());
        let value_type = value_type(cursor)?;
        let value = value(cursor, value_type)?;
        if metadata.insert(key, value).is_some() {
            return Err(GgufErrorKind::DuplicateKey(key.to_owned()));
        }
    }
    Ok(metadata)
}

fn alignment(metadata: &Metadata) -> Result<u64, GgufErrorKind> {
    let alignment = metadata.u64(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    if is_valid_alignment(alignment) {
        Ok(alignment)
    } else {
        Err(GgufErrorKind::Alignment { limit: MAX_ALIGNMENT, got: alignment })
    }
}

fn value_type(cursor: &mut Cursor) -> Result<ValueType, GgufErrorKind> {
    let id = cursor.u32()?;
    ValueType::from_id(id).ok_or_else(|| GgufErrorKind::ValueType { field: cursor.field.clone(), id })
}

fn value(cursor: &mut Cursor, value_type: ValueType) -> Result<Value, GgufErrorKind> {
    Ok(match value_type {
        ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array()?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array()?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array()?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array()?)),
        ValueType::U32 => Value::U32(cursor.u32()?),
        ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array()?)),
        ValueType::U64 => Value::U64(cursor.u64()?),
        ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array()?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array()?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array()?)),
        ValueType::Bool => Value::Bool(bool_of(cursor)?),
        ValueType::Str => string(cursor.string()?),
        ValueType::Array => Value::Array(array(cursor, 1)?),
    })
}

fn string(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Str(text.to_owned()),
        Err(_) => Value::NonUtf8(bytes.into()),
    }
}

fn bool_of(cursor: &mut Cursor) -> Result<bool, GgufErrorKind> {
    match cursor.array()? {
        [0] => Ok(false),
        [1] => Ok(true),
        [byte] => Err(GgufErrorKind::Bool { field: cursor.field.clone(), byte }),
    }
}

fn array(cursor: &mut Cursor, depth: usize) -> Result<Array, GgufErrorKind> {
    if depth > MAX_ARRAY_DEPTH {
        return Err(GgufErrorKind::ArrayDepth { field: cursor.field.clone(), limit: MAX_ARRAY_DEPTH });
    }
    let element_type = value_type(cursor)?;
    let n = cursor.u64()?;
    let n = cursor.bounded(n, element_type.min_bytes(), "array elements")?;
    Ok(match element_type {
        ValueType::U8 => Array::U8(numbers(cursor, n, u8::from_le_bytes)?),
        ValueType::I8 => Array::I8(numbers(cursor, n, i8::from_le_bytes)?),
        ValueType::U16 => Array::U16(numbers(cursor, n, u16::from_le_bytes)?),
        ValueType::I16 => Array::I16(numbers(cursor, n, i16::from_le_bytes)?),
        ValueType::U32 => Array::U32(numbers(cursor, n, u32::from_le_bytes)?),
        ValueType::I32 => Array::I32(numbers(cursor, n, i32::from_le_bytes)?),
        ValueType::U64 => Array::U64(numbers(cursor, n, u64::from_le_bytes)?),
        ValueType::I64 => Array::I64(numbers(cursor, n, i64::from_le_bytes)?),
        ValueType::F32 => Array::F32(numbers(cursor, n, f32::from_le_bytes)?),
        ValueType::F64 => Array::F64(numbers(cursor, n, f64::from_le_bytes)?),
        ValueType::Bool => Array::Bool((0..n).map(|_| bool_of(cursor)).collect::<Result<_, _>>()?),
        ValueType::Str => Array::Str(strings(cursor, n)?),
        ValueType::Array => {
            Array::Nested((0..n).map(|_| array(cursor, depth + 1)).collect::<Result<_, _>>()?)
        }
    })
}

fn numbers<T, const N: usize>(
    cursor: &mut Cursor,
    n: usize,
    decode: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, GgufErrorKind> {
    // `n` elements of N bytes are known to be left, so the product cannot overflow.
    let bytes = cursor.take((n * N) as u64)?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|element| decode(*element)).collect())
}

fn strings(cursor: &mut Cursor, n: usize) -> Result<StrArray, GgufErrorKind> {
    let mut strings = StrArray::with_capacity(n);
    for _ in 0..n {
        strings.push(cursor.string()?);
    }
    Ok(strings)
}

fn tensor_entry(cursor: &mut Cursor, i: usize) -> Result<TensorEntry, GgufErrorKind> {
    cursor.field = Field::TensorName(i);
    let name = cursor.name(MAX_TENSOR_NAME_BYTES)?.to_owned();
    cursor.field = Field::Tensor(name.clone());
    let n_dims = cursor.u32()?;
    if !(1..=4).contains(&n_dims) {
        return Err(GgufErrorKind::DimensionCount { field: cursor.field.clone(), n_dims });
    }
    let dims: Vec<u64> = (0..n_dims).map(|_| cursor.u64()).collect::<Result<_, _>>()?;
    let tensor_type = TensorType::from_id(cursor.u32()?);
    let offset = cursor.u64()?;
    Ok(TensorEntry { name, dims, tensor_type, offset })
}
