//! Layouts of the quantised blocks, byte for byte as GGUF stores them.
//!
//! A quantised row is a sequence of blocks of one type; [`DType::block_elems`] and [`DType::block_bytes`]
//! give the sizes. Every block is plain old data with alignment 1, so [`bytemuck::cast_slice`] views any row
//! of a mapped file as `&[BlockQ4K]` and the like. The packing rules that several kernels need (6-bit scales,
//! value tables) are here; what the numbers mean element by element is spelled out in
//! `vec_ops::scalar::dequant`.

use bytemuck::{Pod, Zeroable};
use half::f16;

use super::DType;

/// Elements in a block of the plain 4-, 5- and 8-bit types, of IQ4_NL and of MXFP4.
pub const QK: usize = 32;

/// Elements in a super-block of the K-quants and of IQ4_XS.
pub const QK_K: usize = 256;

/// An IEEE half-precision number as it lies in a file: two bytes, least significant first, no alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Half([u8; 2]);

impl Half {
    /// The half nearest to `value`, ties to even.
    pub fn from_f32(value: f32) -> Half {
        Half::from_bits(f16::from_f32(value).to_bits())
    }

    /// The half with this bit pattern.
    pub const fn from_bits(bits: u16) -> Half {
        Half(bits.to_le_bytes())
    }

    /// The bit pattern.
    #[inline(always)]
    pub const fn bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }

    /// The same number as f32; exact.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        f16::from_bits(self.bits()).to_f32()
    }
}

/// A quantised block: ties the Rust layout to its element type.
pub trait Block: Pod {
    /// The type whose blocks these are.
    const DTYPE: DType;
}

/// Declares that a struct is the block of a type, and proves at compile time that its size is the table's.
macro_rules! block_of {
    ($block:ty, $dtype:expr) => {
        impl Block for $block {
            const DTYPE: DType = $dtype;
        }
        const _: () = assert!(size_of::<$block>() == $dtype.block_bytes() && align_of::<$block>() == 1);
    };
}

/// 32 elements `d * (q - 8)`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_0 {
    /// Scale.
    pub d: Half,
    /// Nibbles: the low one of byte `i` is element `i`, the high one element `i + 16`.
    pub qs: [u8; QK / 2],
}
block_of!(BlockQ4_0, DType::Q4_0);

/// 32 elements `d * q + m`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_1 {
    /// Scale.
    pub d: Half,
    /// Minimum.
    pub m: Half,
    /// Nibbles, as in [`BlockQ4_0`].
    pub qs: [u8; QK / 2],
}
block_of!(BlockQ4_1, DType::Q4_1);

/// 32 elements `d * (q - 16)` with 5-bit `q`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_0 {
    /// Scale.
    pub d: Half,
    /// Fifth bits: bit `i` of this little-endian 32-bit number belongs to element `i`.
    pub qh: [u8; 4],
    /// Low four bits, as in [`BlockQ4_0`].
    pub qs: [u8; QK / 2],
}
block_of!(BlockQ5_0, DType::Q5_0);

/// 32 elements `d * q + m` with 5-bit `q`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_1 {
    /// Scale.
    pub d: Half,
    /// Minimum.
    pub m: Half,
    /// Fifth bits, as in [`BlockQ5_0`].
    pub qh: [u8; 4],
    /// Low four bits, as in [`BlockQ4_0`].
    pub qs: [u8; QK / 2],
}
block_of!(BlockQ5_1, DType::Q5_1);

/// 32 elements `d * q`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_0 {
    /// Scale.
    pub d: Half,
    /// One signed byte per element, in order.
    pub qs: [i8; QK],
}
block_of!(BlockQ8_0, DType::Q8_0);

/// 256 elements in 16 groups of 16: `d * scale * q - dmin * min` with 2-bit `q`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2K {
    /// One byte per group of 16: scale in the low nibble, minimum in the high one.
    pub scales: [u8; QK_K / 16],
    /// Two halves of 32 bytes, one per 128 elements; bits `2j, 2j+1` of byte `i` are element `32 * j + i` of
    /// the half.
    pub qs: [u8; QK_K / 4],
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
}
block_of!(BlockQ2K, DType::Q2K);

/// 256 elements in 16 groups of 16: `d * (scale - 32) * q` with 3-bit signed `q`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ3K {
    /// Third bits: bit `j` of byte `i` belongs to element `32 * j + i`; a clear bit subtracts 4.
    pub hmask: [u8; QK_K / 8],
    /// Low two bits, as in [`BlockQ2K`].
    pub qs: [u8; QK_K / 4],
    /// Sixteen 6-bit scales; see [`BlockQ3K::unpack_scales`].
    pub scales: [u8; 12],
    /// Scale of the scales.
    pub d: Half,
}
block_of!(BlockQ3K, DType::Q3K);

impl BlockQ3K {
    /// The scales of the 16 groups, -32 to 31.
    ///
    /// The low four bits are the nibbles of bytes 0 to 7 (low nibbles first), the high two bits lie in bytes
    /// 8 to 11.
    #[inline(always)]
    pub fn unpack_scales(&self) -> [i8; 16] {
        let packed = &self.scales;
        std::array::from_fn(|group| {
            let low = (packed[group % 8] >> (group / 8 * 4)) & 0x0f;
            let high = (packed[8 + group % 4] >> (group / 4 * 2)) & 0x03;
            (low | (high << 4)) as i8 - 32
        })
    }
}

/// 256 elements in 8 groups of 32: `d * scale * q - dmin * min` with 4-bit `q`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4K {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Eight 6-bit scales and minima; see [`unpack_scales_and_mins`].
    pub scales: [u8; 12],
    /// Four quarters of 32 bytes, one per 64 elements: low nibbles are the first half, high ones the second.
    pub qs: [u8; QK_K / 2],
}
block_of!(BlockQ4K, DType::Q4K);

/// 256 elements in 8 groups of 32: `d * scale * q - dmin * min` with 5-bit `q`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5K {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Eight 6-bit scales and minima; see [`unpack_scales_and_mins`].
    pub scales: [u8; 12],
    /// Fifth bits: bit `j` of byte `i` belongs to element `i` of group `j`.
    pub qh: [u8; QK_K / 8],
    /// Low four bits, as in [`BlockQ4K`].
    pub qs: [u8; QK_K / 2],
}
block_of!(BlockQ5K, DType::Q5K);

/// 256 elements in 16 groups of 16: `d * scale * (q - 32)` with 6-bit `q`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ6K {
    /// Low four bits: two halves of 64 bytes, one per 128 elements; low nibbles are the first 64 of the half,
    /// high nibbles the rest.
    pub ql: [u8; QK_K / 2],
    /// High two bits: two halves of 32 bytes; bits `2j, 2j+1` of byte `i` belong to element `32 * j + i` of
    /// the half.
    pub qh: [u8; QK_K / 4],
    /// One signed scale per group of 16.
    pub scales: [i8; QK_K / 16],
    /// Scale of the scales.
    pub d: Half,
}
block_of!(BlockQ6K, DType::Q6K);

/// 32 elements `d * IQ4_VALUES[q]`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ4NL {
    /// Scale.
    pub d: Half,
    /// Nibbles, as in [`BlockQ4_0`]: indices into [`IQ4_VALUES`].
    pub qs: [u8; QK / 2],
}
block_of!(BlockIQ4NL, DType::IQ4NL);

/// 256 elements in 8 groups of 32: `d * (scale - 32) * IQ4_VALUES[q]`.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIQ4XS {
    /// Scale of the scales.
    pub d: Half,
    /// High two bits of the scales, two bits per group, little-endian.
    pub scales_h: [u8; 2],
    /// Low four bits of the scales, one nibble per group.
    pub scales_l: [u8; QK_K / 64],
    /// Nibbles, 16 bytes per group, as in [`BlockIQ4NL`].
    pub qs: [u8; QK_K / 2],
}
block_of!(BlockIQ4XS, DType::IQ4XS);

impl BlockIQ4XS {
    /// The scales of the 8 groups, -32 to 31.
    #[inline(always)]
    pub fn unpack_scales(&self) -> [i8; 8] {
        let high = u16::from_le_bytes(self.scales_h);
        std::array::from_fn(|group| {
            let low = (self.scales_l[group / 2] >> (group % 2 * 4)) & 0x0f;
            let high = (high >> (group * 2)) as u8 & 0x03;
            (low | (high << 4)) as i8 - 32
        })
    }
}

/// 32 elements `MXFP4_VALUES[q] * 2^(e - 128)`: 4-bit floats (E2M1) that share a power of two.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMXFP4 {
    /// Shared exponent.
    pub e: u8,
    /// Nibbles, as in [`BlockQ4_0`]: indices into [`MXFP4_VALUES`].
    pub qs: [u8; QK / 2],
}
block_of!(BlockMXFP4, DType::MXFP4);

impl BlockMXFP4 {
    /// The scale that goes with the doubled values of [`MXFP4_VALUES`]: `2^(e - 128)`, exact, subnormal for
    /// `e < 2`.
    #[inline(always)]
    pub fn scale(&self) -> f32 {
        let bits = if self.e < 2 { 0x0020_0000 << self.e } else { (u32::from(self.e) - 1) << 23 };
        f32::from_bits(bits)
    }
}

/// The 16 levels of IQ4_NL and IQ4_XS.
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The 16 values of an E2M1 float, doubled so that they are whole.
pub const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The scales and minima of the 8 groups of a Q4_K or Q5_K block, each 0 to 63.
///
/// Groups 0 to 3 use the low six bits of bytes 0 to 3 (scales) and 4 to 7 (minima). Groups 4 to 7 take their
/// low four bits from the nibbles of bytes 8 to 11 and their high two bits from the tops of bytes 0 to 7.
#[inline(always)]
pub fn unpack_scales_and_mins(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for i in 0..4 {
        scales[i] = packed[i] & 0x3f;
        mins[i] = packed[i + 4] & 0x3f;
        scales[i + 4] = (packed[i + 8] & 0x0f) | ((packed[i] >> 6) << 4);
        mins[i + 4] = (packed[i + 8] >> 4) | ((packed[i + 4] >> 6) << 4);
    }
    (scales, mins)
}
