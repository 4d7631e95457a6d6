//! Matmul kernels of every available instruction set against exact arithmetic on the dequantised weights, and against themselves:
//! the same bits however the work is cut.

#![allow(clippy::unwrap_used)]

use minfer::tensor::{DType, Shape, Tensor, TensorBytes};
use minfer::threads::ThreadPool;
use minfer::vec_ops::Isa;
use minfer::vec_ops::matmul::{
    Activations, Input, Job, MatmulError, Scratch, matmul, matmul_many, needs_quantised, table,
};
use minfer::vec_ops::scalar::dequant::dequantise_row;

/// A small deterministic generator (xorshift).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Uniform in -1 to 1.
    fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

fn weight_types() -> Vec<DType> {
    DType::all().filter(|&dtype| dtype != DType::I32).collect()
}

fn quantised_types() -> Vec<DType> {
    DType::all().filter(|dtype| dtype.is_quantised()).collect()
}

/// Where the half-precision factors lie in a block.
fn factor_offsets(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::Q4_1 | DType::Q5_1 | DType::Q4K | DType::Q5K => &[0, 2],
        DType::Q2K => &[80, 82],
        DType::Q3K => &[108],
        DType::Q6K => &[208],
        DType::MXFP4 | DType::F32 | DType::F16 | DType::BF16 | DType::I32 => &[],
        _ => &[0],
    }
}

/// Blocks of quants that `byte` makes and factors that `factor` makes.
fn blocks(
    dtype: DType,
    n_elems: usize,
    mut byte: impl FnMut() -> u8,
    mut factor: impl FnMut() -> f32,
) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..dtype.bytes_for(n_elems).unwrap()).map(|_| byte()).collect();
    for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
        for &at in factor_offsets(dtype) {
            block[at..at + 2].copy_from_slice(&half::f16::from_f32(factor()).to_le_bytes());
        }
        if dtype == DType::MXFP4 {
            block[0] = 120 + block[0] % 8;
        }
    }
    bytes
}

fn random_weight(random: &mut Random, dtype: DType, n_in: usize, n_out: usize) -> Tensor {
    let n = n_in * n_out;
    let bytes: Vec<u8> = match dtype {
        DType::F32 => (0..n).flat_map(|_| random.unit().to_le_bytes()).collect(),
        DType::F16 => (0..n).flat_map(|_| half::f16::from_f32(random.unit()).to_le_bytes()).collect(),
        DType::BF16 => (0..n).flat_map(|_| half::bf16::from_f32(random.unit()).to_le_bytes()).collect(),
        _ => {
            let mut other = Random(random.bits() | 1);
            blocks(dtype, n, || random.bits() as u8, || other.unit() / 16.0)
        }
    };
    tensor(dtype, n_in, n_out, &bytes)
}

fn tensor(dtype: DType, n_in: usize, n_out: usize, bytes: &[u8]) -> Tensor {
    Tensor { dtype, shape: Shape::d2(n_in, n_out), bytes: TensorBytes::owned(bytes) }
}

fn random_activations(random: &mut Random, n: usize) -> Vec<f32> {
    (0..n).map(|i| random.unit() * if i % 97 == 0 { 30.0 } else { 1.0 }).collect()
}

/// How activations become blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Planes {
    One,
    Two,
}

const PLANES: [Planes; 2] = [Planes::One, Planes::Two];

/// What the engine does with most weights: quantise once if the type asks for it, then multiply.
fn product(
    isa: Isa,
    n_threads: usize,
    weight: &Tensor,
    bias: Option<&[f32]>,
    x: &[f32],
    n_tokens: usize,
) -> Vec<f32> {
    product_in(Planes::One, isa, n_threads, weight, bias, x, n_tokens)
}

fn product_in(
    planes: Planes,
    isa: Isa,
    n_threads: usize,
    weight: &Tensor,
    bias: Option<&[f32]>,
    x: &[f32],
    n_tokens: usize,
) -> Vec<f32> {
    let pool = ThreadPool::new(n_threads).unwrap();
    let n_in = weight.shape.row_len();
    let mut activations = Activations::new();
    let input = if needs_quantised(weight.dtype) {
        let quantise = match planes {
            Planes::One => Activations::quantise,
            Planes::Two => Activations::quantise_twice,
        };
        quantise(&mut activations, table(isa), &pool, x, n_in, n_tokens).unwrap();
        Input::Quantised(&activations)
    } else {
        Input::F32(x)
    };
    let mut out = vec![f32::NAN; weight.shape.n_rows() * n_tokens];
    matmul(table(isa), &pool, weight, bias, input, n_tokens, &mut Scratch::new(), &mut out).unwrap();
    out
}

/// The activations that a block-quantised weight meets, by the contract in the module's documentation.
fn quantised(x: &[f32]) -> Vec<f64> {
    x.chunks(32)
        .flat_map(|block| {
            let amax = block.iter().fold(0f32, |m, v| m.max(v.abs()));
            block.iter().map(move |v| {
                let quant = (v * (127.0 / amax)).round_ties_even();
                f64::from(quant) * f64::from(amax / 127.0)
            })
        })
        .collect()
}

/// As [`quantised`], in two planes.
fn quantised_twice(x: &[f32]) -> Vec<f64> {
    let first = quantised(x);
    // The product of quant and scale is rounded before it is taken away.
    let rest: Vec<f32> = x.iter().zip(&first).map(|(x, first)| x - *first as f32).collect();
    first.iter().zip(quantised(&rest)).map(|(first, second)| first + second).collect()
}

/// Exact products and, for the tolerance, the sums of magnitudes: `[n_out, n_tokens]` each.
fn exact(
    planes: Planes,
    weight: &Tensor,
    bias: Option<&[f32]>,
    x: &[f32],
    n_tokens: usize,
) -> (Vec<f64>, Vec<f64>) {
    let (n_in, n_out) = (weight.shape.row_len(), weight.shape.n_rows());
    let (mut sums, mut magnitudes) = (Vec::new(), Vec::new());
    for token in 0..n_tokens {
        let x = &x[token * n_in..(token + 1) * n_in];
        let x: Vec<f64> = match planes {
            _ if !needs_quantised(weight.dtype) => x.iter().map(|&v| f64::from(v)).collect(),
            Planes::One => quantised(x),
            Planes::Two => quantised_twice(x),
        };
        for row in 0..n_out {
            let mut w = vec![0.0; n_in];
            dequantise_row(weight.dtype, weight.row(row), &mut w);
            let products = || w.iter().zip(&x).map(|(&w, x)| f64::from(w) * x);
            let bias = bias.map_or(0.0, |bias| f64::from(bias[row]));
            sums.push(products().sum::<f64>() + bias);
            magnitudes.push(products().map(f64::abs).sum::<f64>() + bias.abs());
        }
    }
    (sums, magnitudes)
}

/// Every element within `tolerance` of its magnitude. Types with minima lose a little more, because scale and minimum cancel.
fn assert_close(label: &str, got: &[f32], expected: &(Vec<f64>, Vec<f64>), tolerance: f64) {
    for (i, (&got, (sum, magnitude))) in got.iter().zip(expected.0.iter().zip(&expected.1)).enumerate() {
        let error = (f64::from(got) - sum).abs();
        assert!(error <= tolerance * magnitude, "{label}: element {i}: expected {sum}, got {got}");
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Awkward sizes: `(n_in in blocks, n_out, n_tokens)`.
const SIZES: [(usize, usize, usize); 8] =
    [(1, 1, 1), (3, 7, 2), (2, 8, 3), (9, 17, 4), (1, 40, 5), (5, 33, 6), (2, 29, 9), (11, 16, 1)];

fn n_in(dtype: DType, n_blocks: usize) -> usize {
    if dtype.is_quantised() { dtype.block_elems() * n_blocks } else { 19 * n_blocks + 2 }
}

#[test]
fn every_type_and_instruction_set_is_close_to_exact_arithmetic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for dtype in weight_types() {
        for (n_blocks, n_out, n_tokens) in SIZES {
            let n_in = n_in(dtype, n_blocks);
            let weight = random_weight(&mut random, dtype, n_in, n_out);
            let x = random_activations(&mut random, n_in * n_tokens);
            let bias: Vec<f32> = (0..n_out).map(|_| random.unit()).collect();
            for (bias, planes) in [None, Some(&bias[..])].into_iter().zip(PLANES) {
                let expected = exact(planes, &weight, bias, &x, n_tokens);
                for isa in Isa::available() {
                    let got = product_in(planes, isa, 1, &weight, bias, &x, n_tokens);
                    let label = format!("{dtype} {n_in}x{n_out}x{n_tokens} in {planes:?} on {}", isa.name());
                    assert_close(&label, &got, &expected, 4e-6);
                }
            }
        }
    }
}

#[test]
fn vector_instruction_sets_agree_bit_for_bit() {
    let mut random = Random(7);
    let vector: Vec<Isa> = Isa::available().into_iter().filter(|&isa| isa != Isa::Scalar).collect();
    for dtype in weight_types() {
        for (n_blocks, n_out, n_tokens) in SIZES {
            let n_in = n_in(dtype, n_blocks);
            let weight = random_weight(&mut random, dtype, n_in, n_out);
            let x = random_activations(&mut random, n_in * n_tokens);
            for planes in PLANES {
                let result = |&isa: &Isa| bits(&product_in(planes, isa, 1, &weight, None, &x, n_tokens));
                let results: Vec<_> = vector.iter().map(result).collect();
                let label = format!("{dtype} {n_in}x{n_out}x{n_tokens} in {planes:?}");
                assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{label}");
            }
        }
    }
}

#[test]
fn a_token_has_the_same_bits_alone_and_in_any_batch() {
    let mut random = Random(11);
    let n_tokens = 11;
    for dtype in weight_types() {
        let n_in = n_in(dtype, 3);
        let weight = random_weight(&mut random, dtype, n_in, 37);
        let x = random_activations(&mut random, n_in * n_tokens);
        let bias: Vec<f32> = (0..37).map(|_| random.unit()).collect();
        for (isa, planes) in Isa::available().into_iter().flat_map(|isa| PLANES.map(|planes| (isa, planes))) {
            let product =
                |x: &[f32]| bits(&product_in(planes, isa, 1, &weight, Some(&bias), x, x.len() / n_in));
            let together = product(&x);
            for width in [1, 2, 3, 4, 7, 8] {
                let apart: Vec<u32> = x.chunks(width * n_in).flat_map(product).collect();
                assert_eq!(apart, together, "{dtype} in {planes:?} by {width} on {}", isa.name());
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let mut random = Random(13);
    for dtype in weight_types() {
        let n_in = n_in(dtype, 4);
        let weight = random_weight(&mut random, dtype, n_in, 203);
        for n_tokens in [1, 3, 10] {
            let x = random_activations(&mut random, n_in * n_tokens);
            for isa in Isa::available() {
                let one = bits(&product(isa, 1, &weight, None, &x, n_tokens));
                for n_threads in [2, 3] {
                    let got = bits(&product(isa, n_threads, &weight, None, &x, n_tokens));
                    assert_eq!(got, one, "{dtype} with {n_threads} threads on {}", isa.name());
                }
            }
        }
    }
}

#[test]
fn several_weights_at_once_are_the_same_as_one_by_one() {
    let mut random = Random(17);
    let pool = ThreadPool::new(2).unwrap();
    let (n_in, n_tokens) = (256, 5);
    let weights = [(DType::Q4K, 40), (DType::Q6K, 9), (DType::Q8_0, 64)]
        .map(|(dtype, n_out)| random_weight(&mut random, dtype, n_in, n_out));
    let x = random_activations(&mut random, n_in * n_tokens);
    for isa in Isa::available() {
        let mut activations = Activations::new();
        activations.quantise(table(isa), &pool, &x, n_in, n_tokens).unwrap();
        let mut outs = weights.each_ref().map(|w| vec![0.0; w.shape.n_rows() * n_tokens]);
        let mut jobs: Vec<Job> =
            weights.iter().zip(&mut outs).map(|(weight, out)| Job { weight, bias: None, out }).collect();
        let input = Input::Quantised(&activations);
        matmul_many(table(isa), &pool, &mut jobs, input, n_tokens, &mut Scratch::new()).unwrap();
        for (weight, out) in weights.iter().zip(&outs) {
            assert_eq!(bits(out), bits(&product(isa, 1, weight, None, &x, n_tokens)));
        }
    }
}

#[test]
fn two_planes_are_two_tokens_added_up() {
    let mut random = Random(37);
    for dtype in quantised_types() {
        let n_in = n_in(dtype, 2);
        let weight = random_weight(&mut random, dtype, n_in, 21);
        let x = random_activations(&mut random, n_in);
        let rest: Vec<f32> = x.iter().zip(quantised(&x)).map(|(x, first)| x - first as f32).collect();
        for isa in Isa::available() {
            let parts = [&x, &rest].map(|x| product(isa, 1, &weight, None, x, 1));
            let sum: Vec<f32> =
                parts[0].iter().zip(&parts[1]).map(|(first, second)| first + second).collect();
            let got = product_in(Planes::Two, isa, 1, &weight, None, &x, 1);
            assert_eq!(bits(&got), bits(&sum), "{dtype} on {}", isa.name());
        }
    }
}

#[test]
fn two_planes_keep_what_one_loses() {
    let mut random = Random(41);
    let mut bytes = Vec::new();
    for row in 0..32 {
        bytes.extend(half::f16::ONE.to_le_bytes());
        bytes.extend((0..32).map(|column| u8::from(row == column)));
    }
    let identity = tensor(DType::Q8_0, 32, 32, &bytes);
    let x = random_activations(&mut random, 32);
    let largest = |x: &[f32]| x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    for isa in Isa::available() {
        let error = |planes| {
            let got = product_in(planes, isa, 1, &identity, None, &x, 1);
            largest(&got.iter().zip(&x).map(|(y, x)| y - x).collect::<Vec<_>>()) / largest(&x)
        };
        let (one, two) = (error(Planes::One), error(Planes::Two));
        assert!(one > 1e-3 && two < 2e-5, "{one:e} and {two:e} on {}", isa.name());
    }
}

/// All quants at an extreme, against activations at theirs: the sums that would leave 16 bits if a kernel added too many.
#[test]
fn extreme_quants_do_not_overflow() {
    for dtype in quantised_types() {
        let n_in = dtype.block_elems().max(64);
        for byte in [0x00, 0xff, 0x7f, 0x80, 0x0f, 0xf0] {
            let weight = tensor(dtype, n_in, 9, &blocks(dtype, n_in * 9, || byte, || 0.5));
            for pattern in [[1.0f32, 1.0], [-1.0, -1.0], [1.0, -1.0]] {
                for n_tokens in [1, 5] {
                    let x: Vec<f32> = (0..n_in * n_tokens).map(|i| pattern[i % 2]).collect();
                    let expected = exact(Planes::One, &weight, None, &x, n_tokens);
                    for isa in Isa::available() {
                        let got = product(isa, 1, &weight, None, &x, n_tokens);
                        let label = format!("{dtype} bytes {byte:#x} on {}", isa.name());
                        assert_close(&label, &got, &expected, 2e-6);
                    }
                }
            }
        }
    }
}

#[test]
fn a_value_that_is_no_number_shows_in_its_token_and_only_there() {
    let mut random = Random(19);
    for dtype in weight_types() {
        let n_in = n_in(dtype, 2);
        let weight = random_weight(&mut random, dtype, n_in, 10);
        for (bad, n_tokens) in [(f32::NAN, 3), (f32::INFINITY, 3), (f32::NEG_INFINITY, 7), (f32::NAN, 7)] {
            let mut x = random_activations(&mut random, n_in * n_tokens);
            x[n_in + n_in / 2] = bad;
            for (isa, planes) in
                Isa::available().into_iter().flat_map(|isa| PLANES.map(|planes| (isa, planes)))
            {
                let got = product_in(planes, isa, 1, &weight, None, &x, n_tokens);
                for (i, value) in got.iter().enumerate() {
                    let label = format!("{dtype} element {i} with {bad} on {}", isa.name());
                    assert_eq!(!value.is_finite(), i / 10 == 1, "{label}: {value}");
                }
            }
        }
    }
}

#[test]
fn a_weight_scale_that_is_no_number_shows_in_its_row_and_only_there() {
    let mut random = Random(23);
    for dtype in quantised_types().into_iter().filter(|&dtype| dtype != DType::MXFP4) {
        let n_in = n_in(dtype, 2);
        let (row_bytes, at) = (dtype.bytes_for(n_in).unwrap(), factor_offsets(dtype)[0]);
        for bad in [half::f16::NAN, half::f16::INFINITY] {
            let mut bytes = random_weight(&mut random, dtype, n_in, 10).bytes.to_vec();
            bytes[4 * row_bytes + at..][..2].copy_from_slice(&bad.to_le_bytes());
            let weight = tensor(dtype, n_in, 10, &bytes);
            for n_tokens in [1, 6] {
                let x = random_activations(&mut random, n_in * n_tokens);
                for isa in Isa::available() {
                    let got = product(isa, 1, &weight, None, &x, n_tokens);
                    for (i, value) in got.iter().enumerate() {
                        assert_eq!(!value.is_finite(), i % 10 == 4, "{dtype} element {i} on {}", isa.name());
                    }
                }
            }
        }
    }
}

#[test]
fn zero_and_tiny_activations_give_zero() {
    let mut random = Random(29);
    for dtype in quantised_types() {
        let n_in = n_in(dtype, 2);
        let weight = random_weight(&mut random, dtype, n_in, 8);
        for value in [0.0, -0.0, 1e-40, f32::MIN_POSITIVE / 2.0] {
            for (isa, planes) in
                Isa::available().into_iter().flat_map(|isa| PLANES.map(|planes| (isa, planes)))
            {
                let got = product_in(planes, isa, 1, &weight, None, &vec![value; n_in], 1);
                assert!(got.iter().all(|&y| y == 0.0), "{dtype} of {value:e} on {}: {got:?}", isa.name());
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_written() {
    let mut random = Random(31);
    let pool = ThreadPool::new(1).unwrap();
    let kernels = table(Isa::Scalar);
    let weight = random_weight(&mut random, DType::Q8_0, 64, 8);
    let mut activations = Activations::new();
    activations.quantise(kernels, &pool, &[1.0; 128], 64, 2).unwrap();
    let good = Input::Quantised(&activations);
    let run = |weight: &Tensor, bias: Option<&[f32]>, x: Input<'_>, n_tokens: usize, n_out: usize| {
        let mut out = vec![5.0; n_out];
        let result = matmul(kernels, &pool, weight, bias, x, n_tokens, &mut Scratch::new(), &mut out);
        assert!(result.is_ok() || out.iter().all(|&y| y == 5.0));
        result
    };
    let length = |what, expected, got| Err(MatmulError::Length { what, expected, got });
    assert_eq!(run(&weight, None, good, 2, 16), Ok(()));
    assert_eq!(run(&weight, None, good, 2, 15), length("output", 16, 15));
    assert_eq!(run(&weight, Some(&[0.0; 7]), good, 2, 16), length("bias", 8, 7));
    assert_eq!(run(&weight, None, good, 3, 24), length("activations in tokens", 3, 2));
    let other = random_weight(&mut random, DType::Q8_0, 96, 8);
    assert_eq!(run(&other, None, good, 2, 16), length("a token's activations", 96, 64));
    let (expected, got) = ("quantised", "f32");
    let form = MatmulError::Form { dtype: DType::Q8_0, expected, got };
    assert_eq!(run(&weight, None, Input::F32(&[0.0; 128]), 2, 16), Err(form));
    let short = Tensor { bytes: TensorBytes::owned(&[0; 68]), ..weight.clone() };
    assert_eq!(run(&short, None, good, 2, 16), length("weight in bytes", 544, 68));
    let ints = tensor(DType::I32, 64, 8, &[0; 64 * 8 * 4]);
    assert_eq!(run(&ints, None, good, 2, 16), Err(MatmulError::WeightType(DType::I32)));
    let deep = Tensor { shape: Shape::d3(64, 4, 2), ..weight };
    assert!(matches!(run(&deep, None, good, 2, 16), Err(MatmulError::WeightShape { .. })));
    let flat = tensor(DType::Q8_0, 0, 8, &[]);
    assert!(matches!(run(&flat, None, good, 2, 16), Err(MatmulError::WeightShape { .. })));
    let partial = Activations::new().quantise(kernels, &pool, &[0.0; 40], 40, 1);
    assert_eq!(partial, Err(MatmulError::PartialBlock(40)));
}

#[test]
fn no_tokens_and_no_rows_are_fine() {
    for isa in Isa::available() {
        let weight = tensor(DType::Q4_0, 32, 0, &[]);
        assert!(product(isa, 2, &weight, None, &[1.0; 32], 1).is_empty());
        let weight = tensor(DType::Q4_0, 32, 3, &[0; 54]);
        assert!(product(isa, 2, &weight, None, &[], 0).is_empty());
    }
}
