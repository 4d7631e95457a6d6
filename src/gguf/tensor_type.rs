//! Element types as GGUF numbers them, including those this crate does not compute with.

use std::fmt;

use crate::tensor::DType;

/// A tensor's element type by GGUF's number. It may be one this crate cannot read, or one nobody knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorType(u32);

/// Number, name, elements per block, bytes per block; a removed type has no layout.
type Row = (u32, &'static str, Option<(usize, usize)>);

/// Types that files may contain and [`DType`] lacks.
const FOREIGN: [Row; 26] = [
    (4, "Q4_2", None),
    (5, "Q4_3", None),
    (9, "Q8_1", Some((32, 36))),
    (15, "Q8_K", Some((256, 292))),
    (16, "IQ2_XXS", Some((256, 66))),
    (17, "IQ2_XS", Some((256, 74))),
    (18, "IQ3_XXS", Some((256, 98))),
    (19, "IQ1_S", Some((256, 50))),
    (21, "IQ3_S", Some((256, 110))),
    (22, "IQ2_S", Some((256, 82))),
    (24, "I8", Some((1, 1))),
    (25, "I16", Some((1, 2))),
    (27, "I64", Some((1, 8))),
    (28, "F64", Some((1, 8))),
    (29, "IQ1_M", Some((256, 56))),
    (31, "Q4_0_4_4", None),
    (32, "Q4_0_4_8", None),
    (33, "Q4_0_8_8", None),
    (34, "TQ1_0", Some((256, 54))),
    (35, "TQ2_0", Some((256, 66))),
    (36, "IQ4_NL_4_4", None),
    (37, "IQ4_NL_4_8", None),
    (38, "IQ4_NL_8_8", None),
    (40, "NVFP4", Some((64, 36))),
    (41, "Q1_0", Some((128, 18))),
    (42, "Q2_0", Some((64, 18))),
];

impl TensorType {
    pub(super) fn from_id(id: u32) -> TensorType {
        TensorType(id)
    }

    /// GGUF's number.
    pub fn id(self) -> u32 {
        self.0
    }

    /// The type, if this crate reads it.
    pub fn dtype(self) -> Option<DType> {
        DType::from_ggml_id(self.0)
    }

    /// Elements per block and bytes per block, where known.
    pub fn block_layout(self) -> Option<(usize, usize)> {
        match self.dtype() {
            Some(dtype) => Some((dtype.block_elems(), dtype.block_bytes())),
            None => self.foreign()?.2,
        }
    }

    fn foreign(self) -> Option<&'static Row> {
        FOREIGN.iter().find(|row| row.0 == self.0)
    }
}

impl From<DType> for TensorType {
    fn from(dtype: DType) -> TensorType {
        TensorType(dtype.ggml_id())
    }
}

/// The name, such as `Q4_K` or `IQ2_XS`; `unknown type 239` for a number nobody has given a name.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.dtype(), self.foreign()) {
            (Some(dtype), _) => f.write_str(dtype.name()),
            (None, Some((_, name, Some(_)))) => f.write_str(name),
            (None, Some((id, name, None))) => write!(f, "{name} (type {id}, no longer in use)"),
            (None, None) => write!(f, "unknown type {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_has_two_meanings() {
        let mut ids: Vec<u32> =
            DType::all().map(DType::ggml_id).chain(FOREIGN.iter().map(|row| row.0)).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..43).collect::<Vec<u32>>());
    }
}
