//! Metadata values.

use std::fmt;

/// The type of a metadata value or of an array's elements. The numbers are GGUF's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    Str = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

/// Type, name, and the least number of bytes a value takes in a file. The index is GGUF's number.
const TYPES: [(ValueType, &str, usize); 13] = [
    (ValueType::U8, "U8", 1),
    (ValueType::I8, "I8", 1),
    (ValueType::U16, "U16", 2),
    (ValueType::I16, "I16", 2),
    (ValueType::U32, "U32", 4),
    (ValueType::I32, "I32", 4),
    (ValueType::F32, "F32", 4),
    (ValueType::Bool, "bool", 1),
    (ValueType::Str, "string", 8),
    (ValueType::Array, "array", 12),
    (ValueType::U64, "U64", 8),
    (ValueType::I64, "I64", 8),
    (ValueType::F64, "F64", 8),
];

impl ValueType {
    pub(super) fn from_id(id: u32) -> Option<ValueType> {
        TYPES.get(usize::try_from(id).ok()?).map(|row| row.0)
    }

    /// The number GGUF gives this type.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The name used in messages, such as `U32` or `string`.
    pub fn name(self) -> &'static str {
        TYPES[self as usize].1
    }

    pub(super) fn min_bytes(self) -> usize {
        TYPES[self as usize].2
    }
}

/// One metadata value.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    Str(String),
    /// A string that is not UTF-8. The file is not refused for it; asking for it as text is an error.
    NonUtf8(Box<[u8]>),
    Array(Array),
}

impl Value {
    /// The value's type in the file.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F32(_) => ValueType::F32,
            Value::F64(_) => ValueType::F64,
            Value::Bool(_) => ValueType::Bool,
            Value::Str(_) | Value::NonUtf8(_) => ValueType::Str,
            Value::Array(_) => ValueType::Array,
        }
    }

    /// The number, if this is one of the integer types; a bool is not.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            Value::U8(n) => Some(n.into()),
            Value::I8(n) => Some(n.into()),
            Value::U16(n) => Some(n.into()),
            Value::I16(n) => Some(n.into()),
            Value::U32(n) => Some(n.into()),
            Value::I32(n) => Some(n.into()),
            Value::U64(n) => Some(n.into()),
            Value::I64(n) => Some(n.into()),
            _ => None,
        }
    }
}

/// Type and value in a form that is short and safe to print on one line: `U32 5`, `string "llama"`, `array of 3 strings`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.value_type().name();
        match self {
            Value::F32(x) => write!(f, "{name} {x}"),
            Value::F64(x) => write!(f, "{name} {x}"),
            Value::Bool(x) => write!(f, "{name} {x}"),
            Value::Str(text) => write!(f, "{name} \"{}\"", Excerpt(text)),
            Value::NonUtf8(bytes) => write!(f, "{name} of {} bytes that is not UTF-8", bytes.len()),
            Value::Array(array) => {
                let plural = if array.len() == 1 { "" } else { "s" };
                write!(f, "{name} of {} {}{plural}", array.len(), array.element_type().name())
            }
            integer => write!(f, "{name} {}", integer.as_integer().unwrap_or_default()),
        }
    }
}

/// The beginning of a text from a file, escaped so that it stays on one line.
pub(super) struct Excerpt<'a>(pub(super) &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_CHARS: usize = 64;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MAX_CHARS) {
            write!(f, "{}", c.escape_debug())?;
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// A metadata array.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Str(StrArray),
    Nested(Vec<Array>),
}

impl Array {
    /// The elements' type in the file.
    pub fn element_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F32(_) => ValueType::F32,
            Array::F64(_) => ValueType::F64,
            Array::Bool(_) => ValueType::Bool,
            Array::Str(_) => ValueType::Str,
            Array::Nested(_) => ValueType::Array,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::F64(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::Str(v) => v.len(),
            Array::Nested(v) => v.len(),
        }
    }

    /// True if there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as `T`, if they are integers that all fit; bools are not.
    pub(super) fn integers<T: TryFrom<i128>>(&self) -> Option<Vec<T>> {
        match self {
            Array::U8(v) => convert(v),
            Array::I8(v) => convert(v),
            Array::U16(v) => convert(v),
            Array::I16(v) => convert(v),
            Array::U32(v) => convert(v),
            Array::I32(v) => convert(v),
            Array::U64(v) => convert(v),
            Array::I64(v) => convert(v),
            _ => None,
        }
    }
}

fn convert<S: Copy + Into<i128>, T: TryFrom<i128>>(values: &[S]) -> Option<Vec<T>> {
    values.iter().map(|&value| T::try_from(value.into()).ok()).collect()
}

/// An array of strings in one piece of memory. The strings are bytes: a vocabulary may hold text that is not UTF-8.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StrArray {
    bytes: Vec<u8>,
    /// Where each string ends in `bytes`.
    ends: Vec<usize>,
}

impl StrArray {
    /// An empty array with room for `n_strings` strings.
    pub fn with_capacity(n_strings: usize) -> StrArray {
        StrArray { bytes: Vec::new(), ends: Vec::with_capacity(n_strings) }
    }

    /// Appends a string.
    #[inline]
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// The bytes of string `i`.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)?;
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        Some(&self.bytes[start..end])
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for StrArray {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> StrArray {
        let mut array = StrArray::default();
        strings.into_iter().for_each(|string| array.push(string.as_ref()));
        array
    }
}

macro_rules! value_from {
    ($($rust:ty => $variant:ident),*) => { $(
        impl From<$rust> for Value {
            fn from(value: $rust) -> Value {
                Value::$variant(value)
            }
        }
        impl From<Vec<$rust>> for Value {
            fn from(values: Vec<$rust>) -> Value {
                Value::Array(Array::$variant(values))
            }
        }
    )* };
}

value_from!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32,
    f64 => F64, bool => Bool);

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Str(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Str(text)
    }
}

impl From<StrArray> for Value {
    fn from(strings: StrArray) -> Value {
        Value::Array(Array::Str(strings))
    }
}
