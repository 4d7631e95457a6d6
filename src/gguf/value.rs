//! Metadata values.

use std::fmt;

use super::{Array, StrArray};

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

/// Type and value in a form that is short and safe to print on one line: `U32 5`, `string "llama"`, `array of
/// 3 strings`.
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

value_from!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32);
value_from!(u64 => U64, i64 => I64, f32 => F32, f64 => F64, bool => Bool);

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
