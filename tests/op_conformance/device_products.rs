//! Products on devices at sizes that tiles and vectors do not divide, for every stored type, against f64; and
//! rows of every type, bit for bit.

use minfer::graph::{ActivationPrecision, GetRows, InputKind, MatMul};
use minfer::tensor::{DType, Shape, Tensor};
use minfer::vec_ops::scalar::dequant::dequantise_row;

use crate::cases::mat_mul::weight;
use crate::harness::{Case, devices, f64s, values};

/// Elements per row, rows, tokens: around the 8 tokens that one kernel takes, the 64 of the other's tiles,
/// and what is no multiple of anything.
const SIZES: [(usize, usize, usize); 8] = [
    (256, 1, 1),
    (512, 9, 2),
    (768, 70, 7),
    (256, 65, 8),
    (256, 64, 9),
    (512, 130, 65),
    (1024, 63, 64),
    (256, 200, 130),
];

fn check(dtype: DType, n_in: usize, n_out: usize, n_tokens: usize) {
    let w = weight(dtype, n_in, n_out);
    let (x, bias) = (values(n_in * n_tokens, 3), values(n_out, 4));
    let mut dense = vec![0.0; n_in * n_out];
    for (row, out) in dense.chunks_mut(n_in).enumerate() {
        dequantise_row(dtype, w.row(row), out);
    }
    let mut case = Case::new(n_tokens);
    let (w, b) = (case.weight(w), case.weight(Tensor::from_f32(Shape::d1(n_out), &bias)));
    let value = case.value(Shape::d2(n_in, n_tokens), &x);
    let op = MatMul { bias: true, activations: ActivationPrecision::Bits8 };
    let result = case.apply(op, &[value], &[&w, &b]);
    let mut expected = Vec::new();
    let mut scale = 0f64;
    for x in x.chunks(n_in) {
        for (row, bias) in dense.chunks(n_in).zip(&bias) {
            let products: Vec<f64> = f64s(x).iter().zip(f64s(row)).map(|(x, w)| x * w).collect();
            scale = scale.max(products.iter().map(|p| p.abs()).sum());
            expected.push(products.iter().sum::<f64>() + f64::from(*bias));
        }
    }
    for (name, got) in case.run_on(devices(), result, &[]) {
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let error = (f64::from(*got) - expected).abs();
            assert!(
                error <= 2e-6 * scale,
                "{name}: {dtype} {n_in}x{n_out}, {n_tokens} tokens, element {i}: {expected}, got {got}"
            );
        }
    }
}

#[test]
fn products_of_every_type_and_odd_sizes_match_the_definition() {
    for dtype in DType::all().filter(|dtype| *dtype != DType::I32) {
        for (n_in, n_out, n_tokens) in SIZES {
            check(dtype, n_in, n_out, n_tokens);
        }
    }
}

#[test]
fn rows_of_floats_may_have_any_length() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for n_in in [1, 3, 18, 100, 515] {
            for n_tokens in [1, 5, 70] {
                check(dtype, n_in, 33, n_tokens);
            }
        }
    }
}

#[test]
fn rows_of_blocks_of_32_may_end_inside_a_tile() {
    for dtype in [DType::Q4_0, DType::Q5_1, DType::Q8_0, DType::IQ4NL, DType::MXFP4] {
        for n_in in [32, 96, 576] {
            for n_tokens in [1, 3, 66] {
                check(dtype, n_in, 40, n_tokens);
            }
        }
    }
}

#[test]
fn a_token_of_nan_spoils_no_other_one() {
    // Rows that end inside the sixteen elements that kernels take at once.
    const N_IN: usize = 100;
    const N_OUT: usize = 33;
    for n_tokens in [2, 70] {
        let mut x = values(N_IN * n_tokens, 3);
        x[N_IN..2 * N_IN].fill(f32::NAN);
        let mut case = Case::new(n_tokens);
        let w = case.weight(weight(DType::F32, N_IN, N_OUT));
        let value = case.value(Shape::d2(N_IN, n_tokens), &x);
        let op = MatMul { bias: false, activations: ActivationPrecision::Bits16 };
        let result = case.apply(op, &[value], &[&w]);
        for (name, got) in case.run_on(devices(), result, &[]) {
            for (token, got) in got.chunks(N_OUT).enumerate() {
                let is_nan = got.iter().all(|y| y.is_nan());
                let is_finite = got.iter().all(|y| y.is_finite());
                assert_eq!(
                    (is_nan, is_finite),
                    (token == 1, token != 1),
                    "{name}: token {token} of {n_tokens}"
                );
            }
        }
    }
}

#[test]
fn rows_of_every_type_decode_to_the_bits_of_the_definition() {
    const ROWS: usize = 8;
    for dtype in DType::all().filter(|dtype| *dtype != DType::I32) {
        let n_in = if dtype.is_quantised() { 512 } else { 37 };
        let table = weight(dtype, n_in, ROWS);
        let mut expected = vec![0.0; n_in * ROWS];
        for (row, out) in expected.chunks_mut(n_in).enumerate() {
            dequantise_row(dtype, table.row(row), out);
        }
        let mut case = Case::new(ROWS);
        let table = case.weight(table);
        let ids = case.builder.input(InputKind::TokenIds);
        let result = case.apply(GetRows, &[ids], &[&table]);
        for (name, got) in case.run_on(devices(), result, &[]) {
            assert!(
                got.iter().zip(&expected).all(|(got, expected)| got.to_bits() == expected.to_bits()),
                "{name}: {dtype}"
            );
        }
    }
}
