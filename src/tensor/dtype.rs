//! Element types.

use std::fmt;

/// How the elements of a tensor are stored. Names and numbers are GGUF's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum DType {
    F32,
    F16,
    BF16,
    I32,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    IQ4NL,
    IQ4XS,
    MXFP4,
}

/// One row of the type table: type, GGUF's number, name, elements per block, bytes per block.
type Row = (DType, u32, &'static str, usize, usize);

const TABLE: [Row; 17] = [
    (DType::F32, 0, "F32", 1, 4),
    (DType::F16, 1, "F16", 1, 2),
    (DType::BF16, 30, "BF16", 1, 2),
    (DType::I32, 26, "I32", 1, 4),
    (DType::Q4_0, 2, "Q4_0", 32, 18),
    (DType::Q4_1, 3, "Q4_1", 32, 20),
    (DType::Q5_0, 6, "Q5_0", 32, 22),
    (DType::Q5_1, 7, "Q5_1", 32, 24),
    (DType::Q8_0, 8, "Q8_0", 32, 34),
    (DType::Q2K, 10, "Q2_K", 256, 84),
    (DType::Q3K, 11, "Q3_K", 256, 110),
    (DType::Q4K, 12, "Q4_K", 256, 144),
    (DType::Q5K, 13, "Q5_K", 256, 176),
    (DType::Q6K, 14, "Q6_K", 256, 210),
    (DType::IQ4NL, 20, "IQ4_NL", 32, 18),
    (DType::IQ4XS, 23, "IQ4_XS", 256, 136),
    (DType::MXFP4, 39, "MXFP4", 32, 17),
];

// `row` indexes the table with the variant's number, so the two lists must agree.
const _: () = {
    let mut i = 0;
    while i < TABLE.len() {
        assert!(TABLE[i].0 as usize == i, "TABLE lists the variants in their order");
        i += 1;
    }
};

impl DType {
    /// Every type this crate reads.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    /// The type with GGUF's number `id`, if this crate reads it.
    pub fn from_ggml_id(id: u32) -> Option<DType> {
        TABLE.iter().find(|row| row.1 == id).map(|row| row.0)
    }

    /// GGUF's number of this type.
    pub const fn ggml_id(self) -> u32 {
        self.row().1
    }

    /// The field's name of this type, such as `Q4_K`.
    pub const fn name(self) -> &'static str {
        self.row().2
    }

    /// Elements per block; 1 for plain types.
    pub const fn block_elems(self) -> usize {
        self.row().3
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        self.row().4
    }

    /// True for the block-quantised types.
    pub const fn is_quantised(self) -> bool {
        self.block_elems() > 1
    }

    /// Bytes of `n_elems` consecutive elements; `None` if they do not fill whole blocks or the size overflows.
    pub fn bytes_for(self, n_elems: usize) -> Option<usize> {
        if !n_elems.is_multiple_of(self.block_elems()) {
            return None;
        }
        (n_elems / self.block_elems()).checked_mul(self.block_bytes())
    }

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
