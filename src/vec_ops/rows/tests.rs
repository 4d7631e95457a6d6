use half::f16;
use proptest::prelude::*;

use super::{RowKernels, table};
use crate::tensor::{BlockQ8_0, Half};
use crate::vec_ops::Isa;

/// Values that a kernel may meet, a length that no vector divides, and a start that no vector is aligned to.
fn rows() -> impl Strategy<Value = (Vec<f32>, Vec<f32>, usize)> {
    (1usize..150, 0usize..8).prop_flat_map(|(n, start)| {
        let values = || prop::collection::vec(-30.0f32..30.0, n + start);
        (values(), values(), Just(start))
    })
}

fn others() -> Vec<&'static RowKernels> {
    Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar).map(table).collect()
}

/// Largest difference, relative to 1 or to the expected value, whichever is larger.
fn distance(got: &[f32], expected: &[f32]) -> f32 {
    let differences = got.iter().zip(expected).map(|(g, e)| (g - e).abs() / e.abs().max(1.0));
    differences.fold(0.0, f32::max)
}

proptest! {
    #[test]
    fn every_isa_agrees_with_scalar_element_by_element((a, b, start) in rows()) {
        let scalar = table(Isa::Scalar);
        for isa in others() {
            let pairs = [(isa.add, scalar.add), (isa.mul, scalar.mul), (isa.swiglu, scalar.swiglu)];
            for (kernel, reference) in pairs {
                let (mut got, mut expected) = (a.clone(), a.clone());
                kernel(&mut got[start..], &b[start..]);
                reference(&mut expected[start..], &b[start..]);
                prop_assert!(distance(&got, &expected) < 1e-5);
            }
            let (mut got, mut expected) = (a.clone(), a.clone());
            (isa.silu)(&mut got[start..]);
            (scalar.silu)(&mut expected[start..]);
            (isa.scale)(&mut got[start..], 0.37);
            (scalar.scale)(&mut expected[start..], 0.37);
            prop_assert!(distance(&got, &expected) < 1e-5);
        }
    }

    #[test]
    fn every_isa_agrees_with_scalar_on_reductions((a, b, start) in rows()) {
        let scalar = table(Isa::Scalar);
        for isa in others() {
            let (x, y) = (&a[start..], &b[start..]);
            let size: f32 = x.iter().zip(y).map(|(x, y)| (x * y).abs()).sum();
            prop_assert!(((isa.dot)(x, y) - (scalar.dot)(x, y)).abs() <= 1e-6 * size);
            let (mut got, mut expected) = (a.clone(), a.clone());
            (isa.rms_norm)(&mut got[start..], y, 1e-6);
            (scalar.rms_norm)(&mut expected[start..], y, 1e-6);
            prop_assert!(distance(&got, &expected) < 1e-5);
            (isa.softmax)(&mut got[start..], 0.3);
            (scalar.softmax)(&mut expected[start..], 0.3);
            prop_assert!(distance(&got, &expected) < 1e-5);
        }
    }

    #[test]
    fn every_isa_rotates_as_scalar(half in 1usize..70, start in 0usize..8, angle in -3.0f32..3.0) {
        let scalar = table(Isa::Scalar);
        let x: Vec<f32> = (0..start + 2 * half).map(|i| (i as f32 * 0.7).sin()).collect();
        let (cos, sin): (Vec<f32>, Vec<f32>) =
            (0..2 * half).map(|i| angle * i as f32).map(|a| (a.cos(), a.sin())).unzip();
        for isa in others() {
            let (mut got, mut expected) = (x.clone(), x.clone());
            (isa.rope_halves)(&mut got[start..], &cos[..half], &sin[..half]);
            (scalar.rope_halves)(&mut expected[start..], &cos[..half], &sin[..half]);
            (isa.rope_neighbours)(&mut got[start..], &cos, &sin);
            (scalar.rope_neighbours)(&mut expected[start..], &cos, &sin);
            prop_assert!(distance(&got, &expected) < 1e-6);
        }
    }

    #[test]
    fn every_isa_converts_as_scalar(bits in prop::collection::vec(any::<u16>(), 1..100), values in prop::collection::vec(any::<f32>(), 1..100)) {
        let halves: Vec<f16> = bits.into_iter().map(f16::from_bits).collect();
        let scalar = table(Isa::Scalar);
        for isa in others() {
            let (mut got, mut expected) = (vec![0.0; halves.len()], vec![0.0; halves.len()]);
            (isa.f16_to_f32)(&halves, &mut got);
            (scalar.f16_to_f32)(&halves, &mut expected);
            for (got, expected) in got.iter().zip(&expected) {
                prop_assert!(got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()));
            }
            let (mut got, mut expected) = (vec![f16::ZERO; values.len()], vec![f16::ZERO; values.len()]);
            (isa.f32_to_f16)(&values, &mut got);
            (scalar.f32_to_f16)(&values, &mut expected);
            for (got, expected) in got.iter().zip(&expected) {
                prop_assert!(got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()));
            }
        }
    }

    #[test]
    fn every_isa_quantises_and_widens_bytes_with_the_bits_of_scalar(
        values in prop::collection::vec(prop::array::uniform32(any::<f32>()), 1..5),
        scale in -12i32..12,
        n in 1usize..160,
    ) {
        let scalar = table(Isa::Scalar);
        // Numbers of every size, and rows of numbers of one size.
        let even = |x: &f32| if x.is_finite() { (x.to_bits() % 2001) as f32 * 2f32.powi(scale) - 1000.0 } else { *x };
        let rows: [Vec<f32>; 2] = [values.concat(), values.concat().iter().map(even).collect()];
        for (isa, x) in others().into_iter().flat_map(|isa| rows.iter().map(move |x| (isa, x))) {
            let empty = BlockQ8_0 { d: Half::from_bits(0), qs: [0; 32] };
            let (mut got, mut expected) = (vec![empty; values.len()], vec![empty; values.len()]);
            (isa.f32_to_q8_0)(x, &mut got);
            (scalar.f32_to_q8_0)(x, &mut expected);
            prop_assert_eq!(&got, &expected);
            let quants: Vec<i8> = expected.iter().flat_map(|block| block.qs).collect();
            let n = n.min(quants.len());
            let scales = std::array::from_fn(|i| x[i] * 0.01);
            let (mut got, mut expected) = (vec![0.0; n], vec![0.0; n]);
            (isa.i8_to_f32)(&quants[..n], &scales, &mut got);
            (scalar.i8_to_f32)(&quants[..n], &scales, &mut expected);
            for (got, expected) in got.iter().zip(&expected) {
                prop_assert!(got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()));
            }
        }
    }

    #[test]
    fn swiglu_matches_silu_then_mul((gate, up, start) in rows()) {
        for isa in Isa::available().into_iter().map(table) {
            let (mut fused, mut chain) = (gate.clone(), gate.clone());
            (isa.swiglu)(&mut fused[start..], &up[start..]);
            (isa.silu)(&mut chain[start..]);
            (isa.mul)(&mut chain[start..], &up[start..]);
            prop_assert_eq!(fused.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), chain.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_element_does_not_depend_on_its_place((gate, up, start) in rows()) {
        for isa in Isa::available().into_iter().map(table) {
            let mut together = gate.clone();
            (isa.swiglu)(&mut together, &up);
            let (mut alone, up) = (gate[start..].to_vec(), &up[start..]);
            (isa.swiglu)(&mut alone, up);
            prop_assert_eq!(&together[start..], &alone[..]);
        }
    }
}

#[test]
fn nan_and_infinity_pass_through_every_isa() {
    for isa in Isa::available().into_iter().map(table) {
        for n in [5, 8, 13] {
            let mut x = vec![1.0; n];
            x[n - 1] = f32::NAN;
            (isa.silu)(&mut x);
            assert!(x[n - 1].is_nan() && x[..n - 1].iter().all(|x| x.is_finite()));
            (isa.softmax)(&mut x, 1.0);
            assert!(x.iter().all(|x| x.is_nan()), "a NaN score spoils its row");
            let mut x = vec![f32::NEG_INFINITY; n];
            x[n / 2] = 3.0;
            (isa.softmax)(&mut x, 1.0);
            assert_eq!(x.iter().sum::<f32>(), 1.0);
            assert_eq!(x[n / 2], 1.0);
            let mut x = vec![0.0; n];
            (isa.rms_norm)(&mut x, &vec![1.0; n], 1e-6);
            assert!(x.iter().all(|x| *x == 0.0));
        }
    }
}

#[test]
fn a_block_holds_its_largest_magnitude_and_rounds_ties_away_from_zero() {
    for isa in Isa::available().into_iter().map(table) {
        let mut x = [0.0; 32];
        (x[0], x[1], x[2], x[3], x[4]) = (-127.0, 0.5, -0.5, 0.49, 2.5);
        let mut blocks = [BlockQ8_0 { d: Half::from_bits(0), qs: [1; 32] }; 3];
        let zero = [0.0; 32];
        let mut spoilt = [1.0; 32];
        spoilt[31] = f32::INFINITY;
        (isa.f32_to_q8_0)(&[x, zero, spoilt].concat(), &mut blocks);
        assert_eq!((blocks[0].d.to_f32(), &blocks[0].qs[..5]), (1.0, &[-127, 1, -1, 0, 3][..]));
        assert_eq!((blocks[1].d.to_f32(), blocks[1].qs), (0.0, [0; 32]));
        assert!(blocks[2].d.to_f32().is_nan());
    }
}
