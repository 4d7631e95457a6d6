//! CPU arithmetic on slices. `scalar` is the specification; the other folders mirror it file for file.
//! [`rows`], [`attention`] and [`matmul`] each have a `table` of functions per instruction set.

pub mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod matmul;
pub mod rows;
pub mod scalar;
pub mod throughput;

/// An instruction set that has its own kernels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// Portable code, the specification of all others.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 with VNNI (F, BW, VL, VNNI), on top of AVX2.
    Avx512,
}

impl Isa {
    /// Every instruction set this machine runs, the plainest first.
    pub fn available() -> Vec<Isa> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut list = vec![Isa::Scalar];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            list.push(Isa::Avx2);
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
            {
                list.push(Isa::Avx512);
            }
        }
        list
    }

    /// The fastest instruction set this machine runs.
    pub fn best() -> Isa {
        *Isa::available().last().expect("scalar is always there")
    }

    /// Guards the tables: to call a function of an instruction set that the machine does not run is
    /// undefined.
    fn assert_available(self) {
        assert!(Isa::available().contains(&self), "this machine does not run {}", self.name());
    }

    /// The name used on the command line and in `MINFER_ISA`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
}
