//! How fast an instruction set multiplies bytes: sums of products in registers, as many side by side as keep
//! the units busy.

use super::{Isa, scalar};

/// A loop of multiply-adds of unsigned and signed bytes.
pub struct Kernel {
    /// Multiply-adds of one round.
    pub macs_per_round: u64,
    /// Does so many rounds; returns the sum of all products, which wraps around.
    pub run: fn(n_rounds: u64) -> i32,
}

/// The unsigned factor of all products.
pub(in crate::vec_ops) const UNSIGNED: u8 = 3;
/// The signed factor of all products.
pub(in crate::vec_ops) const SIGNED: i8 = -2;

/// The loop of `isa`.
///
/// # Panics
/// If this machine does not run `isa`.
pub fn kernel(isa: Isa) -> &'static Kernel {
    isa.assert_available();
    match isa {
        Isa::Scalar => &scalar::throughput::KERNEL,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &super::avx2::throughput::KERNEL,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &super::avx512::throughput::KERNEL,
        #[cfg(not(target_arch = "x86_64"))]
        _ => unreachable!("only x86-64 machines list other instruction sets as available"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_does_as_many_products_as_it_says() {
        for isa in Isa::available() {
            let kernel = kernel(isa);
            for n_rounds in [0, 1, 5, 1000] {
                let product = i32::from(UNSIGNED) * i32::from(SIGNED);
                let expected = (n_rounds * kernel.macs_per_round) as i32 * product;
                assert_eq!((kernel.run)(n_rounds), expected, "{}: {n_rounds}", isa.name());
            }
        }
    }
}
