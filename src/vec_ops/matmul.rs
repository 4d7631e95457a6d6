//! Weights times activations.
//!
//! A weight is a GGUF tensor `[n_in, n_out]`, row-major `[n_out][n_in]`, used where it lies in the mapped
//! file. Activations are `[n_in, n_tokens] f32`, the result is `[n_out, n_tokens] f32`, both token-major.
//!
//! # The numeric contract
//!
//! **One element of the result, for row `r` and token `t`, is one fixed sequence of float operations that
//! depends on that row and that token only**: not on `n_tokens`, on the place in a tile, on the thread, or on
//! whether one or many tokens are computed. So results are the same bits for any batch and any number of
//! threads. Within one instruction set this is exact. AVX2 and AVX-512 agree bit for bit too; the scalar code
//! rounds products where they fuse multiply and add, which is the only difference.
//!
//! *Block-quantised weights.* A token's activations are quantised once, in blocks of 32:
//! - `scale = amax / 127`, `quant = round_ties_even(x * (127 / amax))`; the quants' sums over each half of 16
//!   are kept as integers and `scaled_sum = (sum of all 32) as f32 * scale`;
//! - a block with a NaN or an infinity gets `scale = NaN`, so that it shows in the result;
//! - a block so small that `127 / amax` is not finite counts as zero.
//!
//! Where eight bits per element are too few, a token has *two planes*: these blocks, and blocks made in the
//! same way of what they leave, `x - quant as f32 * scale`. To the kernels the planes are two tokens; the
//! result is the sum of theirs, `first + second`, each being complete.
//!
//! A weight block of 32 has integer quants, centred exactly (`q - 8` for Q4_0, `q - 32` for Q6_K), and an f32
//! scale: `d`, or `d * sub-scale` rounded to f32 where sub-blocks are 32 wide (Q4_K, Q5_K, IQ4_XS). Where
//! they are 16 wide (Q2_K, Q3_K, Q6_K) the small integer scales are folded into the integer sum,
//! `isum = sc0 * isum0 + sc1 * isum1`, which is exact. For the blocks of a row in order, with
//! minima where a type has them:
//! ```text
//! acc = acc + (isum as f32 * scale_a) * scale_w
//! acc = acc - scaled_sum_a * min_w                                     per 32: Q4_K, Q5_K, Q4_1, Q5_1 (-m)
//! acc = acc - ((min0 * sum0 + min1 * sum1) as f32 * scale_a) * dmin    per 16: Q2_K
//! ```
//! *F32, F16 and BF16 weights.* Activations stay f32. Eight accumulators, one per `k mod 8`, each over `k` in
//! order; then `((a0+a4)+(a2+a6)) + ((a1+a5)+(a3+a7))`.
//!
//! *Bias.* Added to the finished sum, or sum of planes, as one more operation.
//!
//! # How it is computed
//!
//! Eight rows go together, a vector lane per row, so an integer sum needs no shuffles and every vector width
//! does the same arithmetic. Rows are *unpacked* into panels in which the four bytes that meet the same four
//! activations lie side by side for all eight rows; panels and activations then meet in one small kernel per
//! `Form` of quants. For few tokens a panel is a few blocks that stay in the first-level cache; for many it
//! is the rows' whole length, unpacked once for all tokens; for one token its planes
//! meet the rows without a panel, on blocks that stay in registers. AVX-512 puts two groups side by side for
//! several tokens.

mod activations;
mod driver;
mod error;
pub(in crate::vec_ops) mod panel;
mod product;

pub use activations::Activations;
pub use driver::{Input, Job, Scratch, matmul, matmul_many};
pub use error::MatmulError;

use super::Isa;
use crate::tensor::DType;
use panel::{Dot, FloatDot, Quantise, Single, Unpack};

/// The two halves of a matmul with one block-quantised type.
#[derive(Clone, Copy)]
pub(in crate::vec_ops) struct QuantKernel {
    pub(in crate::vec_ops) unpack: Unpack,
    pub(in crate::vec_ops) dot: Dot,
    /// A shorter way for one token, where there is one: the same operations without panels.
    pub(in crate::vec_ops) single: Option<Single>,
}

/// All matmul kernels of one instruction set: one per type that a weight can have, so there is no pair that
/// is not supported.
pub struct Table {
    pub(in crate::vec_ops) isa: Isa,
    pub(in crate::vec_ops) quantise: Quantise,
    pub(in crate::vec_ops) f32: FloatDot,
    pub(in crate::vec_ops) f16: FloatDot,
    pub(in crate::vec_ops) bf16: FloatDot,
    pub(in crate::vec_ops) q4_0: QuantKernel,
    pub(in crate::vec_ops) q4_1: QuantKernel,
    pub(in crate::vec_ops) q5_0: QuantKernel,
    pub(in crate::vec_ops) q5_1: QuantKernel,
    pub(in crate::vec_ops) q8_0: QuantKernel,
    pub(in crate::vec_ops) q2_k: QuantKernel,
    pub(in crate::vec_ops) q3_k: QuantKernel,
    pub(in crate::vec_ops) q4_k: QuantKernel,
    pub(in crate::vec_ops) q5_k: QuantKernel,
    pub(in crate::vec_ops) q6_k: QuantKernel,
    pub(in crate::vec_ops) iq4_nl: QuantKernel,
    pub(in crate::vec_ops) iq4_xs: QuantKernel,
    pub(in crate::vec_ops) mxfp4: QuantKernel,
}

/// The kernel of one weight type.
#[derive(Clone, Copy)]
enum Kernel {
    Float(FloatDot),
    Quantised(QuantKernel),
}

impl Table {
    /// The instruction set these kernels need.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The kernel for weights of type `dtype`; `None` for I32, which is no weight type.
    fn kernel(&self, dtype: DType) -> Option<Kernel> {
        Some(match dtype {
            DType::I32 => return None,
            DType::F32 => Kernel::Float(self.f32),
            DType::F16 => Kernel::Float(self.f16),
            DType::BF16 => Kernel::Float(self.bf16),
            DType::Q4_0 => Kernel::Quantised(self.q4_0),
            DType::Q4_1 => Kernel::Quantised(self.q4_1),
            DType::Q5_0 => Kernel::Quantised(self.q5_0),
            DType::Q5_1 => Kernel::Quantised(self.q5_1),
            DType::Q8_0 => Kernel::Quantised(self.q8_0),
            DType::Q2K => Kernel::Quantised(self.q2_k),
            DType::Q3K => Kernel::Quantised(self.q3_k),
            DType::Q4K => Kernel::Quantised(self.q4_k),
            DType::Q5K => Kernel::Quantised(self.q5_k),
            DType::Q6K => Kernel::Quantised(self.q6_k),
            DType::IQ4NL => Kernel::Quantised(self.iq4_nl),
            DType::IQ4XS => Kernel::Quantised(self.iq4_xs),
            DType::MXFP4 => Kernel::Quantised(self.mxfp4),
        })
    }
}

/// True if weights of type `dtype` meet quantised activations, false if they meet f32.
pub fn needs_quantised(dtype: DType) -> bool {
    dtype.is_quantised()
}

/// The kernels of `isa`.
///
/// # Panics
/// If this machine does not run `isa`: every use of the table would be undefined.
pub fn table(isa: Isa) -> &'static Table {
    assert!(Isa::available().contains(&isa), "this machine does not run {}", isa.name());
    match isa {
        Isa::Scalar => &super::scalar::matmul::TABLE,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &super::avx2::matmul::TABLE,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &super::avx512::matmul::TABLE,
        #[cfg(not(target_arch = "x86_64"))]
        _ => unreachable!("only x86-64 machines list other instruction sets as available"),
    }
}
