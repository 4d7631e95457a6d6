//! What the result of attention may depend on: a token's position and what it sees, nothing else.

use minfer::graph::{BackendError, BackendId, GraphError, KvFormat};
use minfer::vec_ops::Isa;

use crate::cases::attn::{FORMATS, N_VOCAB, Session, Spec, Token, spec};
use crate::harness::{Target, devices, targets};

fn id(seq: usize, position: usize) -> i32 {
    ((seq * 97 + position * 31) % N_VOCAB) as i32
}

fn tokens(seq: usize, positions: std::ops::Range<usize>) -> Vec<Token> {
    positions.map(|position| (seq, position, id(seq, position))).collect()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn prefill_chunks_single_tokens_and_batches_give_the_same_bits() {
    const N: usize = 420;
    for isa in Isa::available() {
        for (format, window) in [(KvFormat::F16, None), (KvFormat::F32, Some(300)), (KvFormat::Q8_0, None)] {
            let spec = spec(14, 2, 64, 64, format, window);
            let row = spec.op.n_head * spec.op.head_dim_v;
            let whole = bits(&Session::new(&spec, &Target::cpu(isa, 1)).step(&tokens(0, 0..N)));
            for n_threads in [1, 2, 5] {
                let target = Target::cpu(isa, n_threads);
                for chunk in [N, 7, 1] {
                    let mut session = Session::new(&spec, &target);
                    let steps = tokens(0, 0..N);
                    let got: Vec<f32> = steps.chunks(chunk).flat_map(|step| session.step(step)).collect();
                    assert!(bits(&got) == whole, "{}, {format:?}, chunks of {chunk}", target.name);
                }
                // Beside two other sequences, one ahead and one behind, in turns.
                let mut session = Session::new(&spec, &target);
                session.step(&tokens(1, 0..100));
                for start in (0..N).step_by(20) {
                    let mut step = tokens(1, 100 + start..100 + start + 3);
                    step.extend(tokens(0, start..start + 20));
                    step.extend(tokens(2, start..start + 20));
                    let got = session.step(&step);
                    let expected = &whole[start * row..(start + 20) * row];
                    assert!(bits(&got[3 * row..23 * row]) == expected, "{}, batch", target.name);
                }
            }
        }
    }
}

#[test]
fn tokens_do_not_see_what_comes_after_them() {
    for format in FORMATS {
        no_token_sees_a_later_one(&spec(4, 2, 64, 64, format, None));
    }
}

fn no_token_sees_a_later_one(clean: &Spec) {
    let mut poisoned = clean.clone();
    // Keys and values of one token that no other may see.
    let poison = id(0, 40) as usize;
    for (table, row) in [(&mut poisoned.k, 128), (&mut poisoned.v, 128)] {
        table[poison * row..(poison + 1) * row].fill(f32::NAN);
    }
    for target in targets() {
        let row = 4 * 64;
        let expected = bits(&Session::new(clean, &target).step(&tokens(0, 0..50)));
        let mut session = Session::new(&poisoned, &target);
        let got = session.step(&tokens(0, 0..50));
        assert_eq!(bits(&got[..40 * row]), expected[..40 * row], "{}", target.name);
        assert!(
            got[40 * row..].iter().all(|x| x.is_nan()),
            "{}: NaN shows in the tokens that see it",
            target.name
        );
        // The sequence goes back to 40 tokens; the cells after them still hold the poison.
        let again = session.step(&tokens(0, 35..36));
        let expected = &expected[35 * row..36 * row];
        match target.id == BackendId::CPU {
            true => assert_eq!(bits(&again), expected, "{}", target.name),
            // A device computes single tokens and many of them in different orders.
            false => {
                let error = |(got, bits): (&f32, &u32)| (got - f32::from_bits(*bits)).abs();
                assert!(again.iter().zip(expected).map(error).all(|error| error < 1e-5), "{}", target.name);
            }
        }
    }
}

#[test]
fn large_queries_and_keys_do_not_overflow() {
    let mut large: Spec = spec(2, 1, 64, 64, KvFormat::F16, None);
    large.q.fill(300.0);
    large.k.fill(300.0);
    for target in targets() {
        let got = Session::new(&large, &target).step(&tokens(0, 0..70));
        // All scores are equal, so the last token gets the mean of all values.
        let mean = |element: usize| {
            let sum: f64 =
                (0..70).map(|position| f64::from(large.stored_value(id(0, position))[element])).sum();
            sum / 70.0
        };
        for (element, got) in got[69 * 128..69 * 128 + 64].iter().enumerate() {
            assert!((f64::from(*got) - mean(element)).abs() < 1e-5, "{}: {got}", target.name);
        }
    }
}

#[test]
fn pages_positions_and_sequences_out_of_range_are_errors() {
    let spec = spec(2, 1, 64, 64, KvFormat::F16, None);
    for target in targets().into_iter().filter(|target| target.id == BackendId::CPU) {
        let mut session = Session::new(&spec, &target);
        let pages = session.kv_pages();
        let mut refuses =
            |tokens: &[Token], pages: &[i32], wanted: &str| match session.step_with(tokens, pages) {
                Err(GraphError::Kernel(error)) => match *error {
                    BackendError::Invariant { what, .. } => assert_eq!(what, wanted),
                    other => panic!("{}: {wanted}: {other}", target.name),
                },
                other => panic!("{}: {wanted}: {other:?}", target.name),
            };
        for page in [-1, 128, i32::MAX] {
            let mut pages = pages.clone();
            pages[1] = page;
            refuses(&[(0, 40, 1)], &pages, "KV page");
        }
        refuses(&[(4, 0, 1)], &pages, "sequence id");
        refuses(&[(0, 4096, 1)], &pages, "position");
    }
}

/// Tokens at positions around the ends of the stretches into which kernels cut a context.
#[test]
fn long_contexts_match_the_definition() {
    // Contexts of one, several and many stretches; heads and groups of all sizes.
    for (n_ctx, [n_head, n_head_kv, head_dim, head_dim_v], window) in [
        (256, [2, 1, 32, 32], None),
        (2048, [24, 2, 64, 32], None),
        (4096, [9, 1, 32, 64], Some(300)),
        (16384, [5, 1, 512, 512], None),
        (4096, [2, 2, 288, 160], Some(700)),
    ] {
        for format in FORMATS {
            let spec = Spec { n_ctx, ..spec(n_head, n_head_kv, head_dim, head_dim_v, format, window) };
            let n = (n_ctx / 4).min(900);
            let ids: Vec<i32> = (0..n).map(|position| id(0, position)).collect();
            let row = n_head * head_dim_v;
            let targets = devices().into_iter().chain([Target::cpu(Isa::best(), 1)]);
            for target in targets {
                let mut session = Session::new(&spec, &target);
                let many = session.step(&tokens(0, 0..n));
                for position in
                    [0, 31, 32, 63, 255, 256, 257, 511, 512, 640, 767, 899].iter().filter(|p| **p < n)
                {
                    let expected = spec.reference(&ids[..=*position]);
                    let few = session.step(&tokens(0, *position..position + 1));
                    for got in [&many[position * row..][..row], &few] {
                        let error = |(got, expected): (&f32, &f64)| (f64::from(*got) - expected).abs();
                        let worst = got.iter().zip(&expected).map(error).fold(0.0, f64::max);
                        assert!(
                            worst < 2e-5,
                            "{}: {:?} {format:?} {position}: {worst}",
                            target.name,
                            spec.op
                        );
                    }
                }
            }
        }
    }
}

/// A device finds out only inside a kernel, which cannot report it: what does not exist is not seen.
#[test]
fn devices_do_not_see_pages_and_sequences_out_of_range() {
    let spec = spec(2, 1, 64, 64, KvFormat::F16, None);
    for target in devices() {
        // Few tokens and many are two kernels.
        for repeat in [1, 12] {
            let mut session = Session::new(&spec, &target);
            let pages = session.kv_pages();
            session.step(&tokens(0, 0..33));
            let first_page = session.step(&tokens(0, 31..32));
            for page in [-1, 128, i32::MAX, i32::MIN] {
                let mut pages = pages.clone();
                pages[1] = page;
                // Without its second page, position 40 sees what position 31 sees with the same query.
                let token = (0, 40, id(0, 31));
                let got = session.step_with(&vec![token; repeat], &pages).unwrap();
                for got in got.chunks(first_page.len()) {
                    let error = |(got, expected): (&f32, &f32)| (got - expected).abs();
                    assert!(
                        got.iter().zip(&first_page).map(error).all(|error| error < 1e-5),
                        "{}",
                        target.name
                    );
                }
                pages[0] = page;
                let got = session.step_with(&vec![token; repeat], &pages).unwrap();
                assert!(got.iter().all(|x| *x == 0.0), "{}", target.name);
            }
            let got = session.step_with(&vec![(4, 0, 1); repeat], &pages).unwrap();
            assert!(got.iter().all(|x| *x == 0.0), "{}: there is no sequence 4", target.name);
            let got = session.step_with(&vec![(0, 4096, 1); repeat], &pages).unwrap();
            assert!(got.iter().all(|x| x.is_finite()), "{}: position beyond the table", target.name);
        }
    }
}
