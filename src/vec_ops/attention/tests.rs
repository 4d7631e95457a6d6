use proptest::prelude::*;

use super::{AttentionKernels, PAGE_KEYS, PageScores, RunningSoftmax, table};
use crate::vec_ops::Isa;

fn others() -> Vec<&'static AttentionKernels> {
    Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar).map(table).collect()
}

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #[test]
    fn every_isa_multiplies_as_scalar(n_rows in 0usize..9, n_k in 0usize..70, vectors in 1usize..12, gap in 0usize..5) {
        let (n, a_stride) = (vectors * 8, n_k + gap);
        let (a, b) = (values(n_rows * a_stride, 1), values(n * n_k, 2));
        let mut expected = values(n_rows * n, 3);
        (table(Isa::Scalar).accumulate)(&a, a_stride, &b, n, &mut expected);
        for isa in others() {
            let mut got = values(n_rows * n, 3);
            (isa.accumulate)(&a, a_stride, &b, n, &mut got);
            for (got, expected) in got.iter().zip(&expected) {
                prop_assert!((got - expected).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others(n_rows in 1usize..9, n_k in 1usize..70, vectors in 1usize..12) {
        let n = vectors * 8;
        let (a, b) = (values(n_rows * n_k, 1), values(n * n_k, 2));
        for isa in Isa::available().into_iter().map(table) {
            let mut together = values(n_rows * n, 3);
            (isa.accumulate)(&a, n_k, &b, n, &mut together);
            for row in 0..n_rows {
                let mut alone = values(n_rows * n, 3)[row * n..(row + 1) * n].to_vec();
                (isa.accumulate)(&a[row * n_k..], n_k, &b, n, &mut alone);
                prop_assert_eq!(bits(&alone), bits(&together[row * n..(row + 1) * n]));
            }
        }
    }

    #[test]
    fn every_isa_updates_and_merges_as_scalar(start in 0usize..PAGE_KEYS, n_keys in 1usize..PAGE_KEYS, seed in 0usize..1000) {
        let keys = start..(start + n_keys).min(PAGE_KEYS);
        let before = RunningSoftmax { max: 0.25, sum: 1.5 };
        let run = |table: &AttentionKernels| {
            let mut lanes: [f32; PAGE_KEYS] = values(PAGE_KEYS, seed).try_into().expect("one page of keys");
            let mut state = before;
            let factor = (table.update_softmax)(PageScores { lanes: &mut lanes, keys: keys.clone(), scale: 3.0 }, &mut state);
            let mut merged = values(11, seed);
            let mut total = before;
            (table.merge)(&mut merged, &mut total, &values(11, seed + 1), state);
            let mut all = lanes.to_vec();
            all.extend([factor, state.max, state.sum, total.max, total.sum]);
            all.extend(merged);
            all
        };
        let expected = run(table(Isa::Scalar));
        for isa in others() {
            for (got, expected) in run(isa).iter().zip(&expected) {
                prop_assert!((got - expected).abs() <= 1e-5 * expected.abs().max(1.0));
            }
        }
    }
}

#[test]
fn lanes_that_are_not_keys_contribute_nothing_whatever_they_hold() {
    for isa in Isa::available().into_iter().map(table) {
        for garbage in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
            let mut lanes = [garbage; PAGE_KEYS];
            lanes[3..7].copy_from_slice(&[1.0, 2.0, 0.5, -1.0]);
            let mut state = RunningSoftmax::EMPTY;
            (isa.update_softmax)(PageScores { lanes: &mut lanes, keys: 3..7, scale: 1.0 }, &mut state);
            assert_eq!(state.max, 2.0);
            assert_eq!(lanes[4], 1.0);
            assert!(lanes[..3].iter().chain(&lanes[7..]).all(|x| *x == 0.0));
        }
    }
}

#[test]
fn nan_scores_spoil_their_row_and_minus_infinity_does_not() {
    for isa in Isa::available().into_iter().map(table) {
        let mut lanes = [1.0; PAGE_KEYS];
        lanes[5] = f32::NAN;
        let mut state = RunningSoftmax::EMPTY;
        (isa.update_softmax)(PageScores { lanes: &mut lanes, keys: 0..32, scale: 1.0 }, &mut state);
        assert!(state.sum.is_nan() && lanes[5].is_nan());

        let mut lanes = [f32::NEG_INFINITY; PAGE_KEYS];
        let mut state = RunningSoftmax::EMPTY;
        let scores = PageScores { lanes: &mut lanes, keys: 0..32, scale: 1.0 };
        let factor = (isa.update_softmax)(scores, &mut state);
        assert_eq!((state, factor), (RunningSoftmax::EMPTY, 0.0));
        assert_eq!(lanes, [0.0; PAGE_KEYS]);
    }
}

#[test]
fn merging_an_empty_segment_changes_no_bit() {
    for isa in Isa::available().into_iter().map(table) {
        let (mut values, mut state) = (values(13, 5), RunningSoftmax { max: -3.5, sum: 2.25 });
        let before = (bits(&values), state);
        (isa.merge)(&mut values, &mut state, &[0.0; 13], RunningSoftmax::EMPTY);
        assert_eq!((bits(&values), state), before);
    }
}
