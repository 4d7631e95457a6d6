//! The ordered key-value pairs of a file, and typed access to them.

use std::collections::HashMap;

use thiserror::Error;

use super::{Array, StrArray, Value};
use crate::error::Hint;

/// A key that is missing or does not hold what was asked for.
#[derive(Clone, PartialEq, Error, Debug)]
pub enum MetadataError {
    /// The file has no such key.
    #[error("metadata key `{key}`: expected {expected}, but the file has no such key")]
    Missing {
        /// The key.
        key: String,
        /// What kind of value was asked for.
        expected: &'static str,
    },
    /// The value has another type or is out of range.
    #[error("metadata key `{key}`: expected {expected}, got {found}")]
    Mismatch {
        /// The key.
        key: String,
        /// What kind of value was asked for.
        expected: &'static str,
        /// Type and value found, shortened.
        found: String,
    },
}

impl Hint for MetadataError {}

/// Metadata in file order.
///
/// Each getter comes in two forms: `u32` returns `None` where the key is absent, `require_u32` an error. Both
/// fail on a value of another type. Any integer type serves as any other as long as the number fits.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: Vec<(Box<str>, Value)>,
    index: HashMap<Box<str>, usize>,
}

/// Equal keys and values in equal order.
impl PartialEq for Metadata {
    fn eq(&self, other: &Metadata) -> bool {
        self.entries == other.entries
    }
}

const U32: &str = "an integer from 0 to 4294967295";
const U64: &str = "an integer from 0 to 18446744073709551615";
const F32: &str = "a float";
const BOOL: &str = "a bool";
const STR: &str = "a UTF-8 string";
const STR_ARRAY: &str = "an array of strings";
const F32_ARRAY: &str = "an array of F32";
const U32_ARRAY: &str = "an array of integers from 0 to 4294967295";
const I64_ARRAY: &str = "an array of integers that fit in 64 bits";

/// Declares the two forms of a getter.
macro_rules! getters {
    ($($(#[$doc:meta])* $get:ident $require:ident -> $ty:ty, $expected:ident, $convert:expr;)*) => { $(
        $(#[$doc])*
        pub fn $get(&self, key: &str) -> Result<Option<$ty>, MetadataError> {
            self.typed(key, $expected, $convert)
        }

        $(#[$doc])*
        pub fn $require(&self, key: &str) -> Result<$ty, MetadataError> {
            self.$get(key)?.ok_or_else(|| MetadataError::Missing { key: key.to_owned(), expected: $expected })
        }
    )* };
}

impl Metadata {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|&i| &self.entries[i].1)
    }

    /// Keys and values in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets `key` and returns the value it had. A new key goes to the end, an old one keeps its place.
    pub fn insert(&mut self, key: &str, value: impl Into<Value>) -> Option<Value> {
        let value = value.into();
        if let Some(&i) = self.index.get(key) {
            return Some(std::mem::replace(&mut self.entries[i].1, value));
        }
        self.index.insert(key.into(), self.entries.len());
        self.entries.push((key.into(), value));
        None
    }

    /// Removes `key` and returns its value. The other keys keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let i = self.index.remove(key)?;
        self.index.values_mut().filter(|later| **later > i).for_each(|later| *later -= 1);
        Some(self.entries.remove(i).1)
    }

    getters! {
        /// The integer of `key`.
        u32 require_u32 -> u32, U32, |value| value.as_integer()?.try_into().ok();
        /// The integer of `key`.
        u64 require_u64 -> u64, U64, |value| value.as_integer()?.try_into().ok();
        /// The float of `key`; an F64 is rounded.
        f32 require_f32 -> f32, F32, as_f32;
        /// The bool of `key`.
        bool require_bool -> bool, BOOL, |value| match value { Value::Bool(x) => Some(*x), _ => None };
        /// The text of `key`.
        str require_str -> &str, STR, |value| match value { Value::Str(x) => Some(x.as_str()), _ => None };
        /// The string array of `key`.
        str_array require_str_array -> &StrArray, STR_ARRAY, as_str_array;
        /// The F32 array of `key`.
        f32_array require_f32_array -> &[f32], F32_ARRAY, as_f32_array;
        /// The integers of `key`, converted.
        u32_array require_u32_array -> Vec<u32>, U32_ARRAY, |value| as_array(value)?.integers();
        /// The integers of `key`, converted.
        i64_array require_i64_array -> Vec<i64>, I64_ARRAY, |value| as_array(value)?.integers();
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, MetadataError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let mismatch = || MetadataError::Mismatch { key: key.to_owned(), expected, found: value.to_string() };
        convert(value).map(Some).ok_or_else(mismatch)
    }
}

fn as_f32(value: &Value) -> Option<f32> {
    match *value {
        Value::F32(x) => Some(x),
        // A finite number that becomes infinite did not fit.
        Value::F64(x) => Some(x as f32).filter(|rounded| rounded.is_finite() || !x.is_finite()),
        _ => None,
    }
}

fn as_array(value: &Value) -> Option<&Array> {
    match value {
        Value::Array(array) => Some(array),
        _ => None,
    }
}

fn as_str_array(value: &Value) -> Option<&StrArray> {
    match value {
        Value::Array(Array::Str(strings)) => Some(strings),
        _ => None,
    }
}

fn as_f32_array(value: &Value) -> Option<&[f32]> {
    match value {
        Value::Array(Array::F32(values)) => Some(values),
        _ => None,
    }
}
