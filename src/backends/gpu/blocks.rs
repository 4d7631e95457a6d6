//! How kernels read each stored type: the WGSL function `weight16(row_at, e)` gives the elements `e..e + 16`
//! of the row whose first byte is `row_at` of the binding `weights`, as the columns of a matrix. `e` is a
//! multiple of 16. Blocks are read as they lie in the file, and decode to the same numbers as on the CPU.

use crate::tensor::DType;

/// Reading bytes out of words; what all types use.
pub(super) const WORDS: &str = include_str!("wgsl/blocks/words.wgsl");

/// The definition of `weight16` for `dtype`.
pub(super) fn source(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::I32 => include_str!("wgsl/blocks/f32.wgsl"),
        DType::F16 => include_str!("wgsl/blocks/f16.wgsl"),
        DType::BF16 => include_str!("wgsl/blocks/bf16.wgsl"),
        DType::Q4_0 => include_str!("wgsl/blocks/q4_0.wgsl"),
        DType::Q4_1 => include_str!("wgsl/blocks/q4_1.wgsl"),
        DType::Q5_0 => include_str!("wgsl/blocks/q5_0.wgsl"),
        DType::Q5_1 => include_str!("wgsl/blocks/q5_1.wgsl"),
        DType::Q8_0 => include_str!("wgsl/blocks/q8_0.wgsl"),
        DType::Q2K => {
            concat!(include_str!("wgsl/blocks/two_bits.wgsl"), include_str!("wgsl/blocks/q2_k.wgsl"))
        }
        DType::Q3K => {
            concat!(include_str!("wgsl/blocks/two_bits.wgsl"), include_str!("wgsl/blocks/q3_k.wgsl"))
        }
        DType::Q4K => {
            concat!(include_str!("wgsl/blocks/scales_k.wgsl"), include_str!("wgsl/blocks/q4_k.wgsl"))
        }
        DType::Q5K => {
            concat!(include_str!("wgsl/blocks/scales_k.wgsl"), include_str!("wgsl/blocks/q5_k.wgsl"))
        }
        DType::Q6K => {
            concat!(include_str!("wgsl/blocks/two_bits.wgsl"), include_str!("wgsl/blocks/q6_k.wgsl"))
        }
        DType::IQ4NL => {
            concat!(include_str!("wgsl/blocks/iq4_values.wgsl"), include_str!("wgsl/blocks/iq4_nl.wgsl"))
        }
        DType::IQ4XS => {
            concat!(include_str!("wgsl/blocks/iq4_values.wgsl"), include_str!("wgsl/blocks/iq4_xs.wgsl"))
        }
        DType::MXFP4 => include_str!("wgsl/blocks/mxfp4.wgsl"),
    }
}
