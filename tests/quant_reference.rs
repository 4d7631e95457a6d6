//! Dequantisation against rows that ggml decoded (`tests/reference/quant`), bit for bit.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use minfer::tensor::DType;
use minfer::vec_ops::scalar::dequant::dequantise_row;

const N_ROWS: usize = 8;
const ROW_LEN: usize = 512;

fn rows(file: &str) -> Vec<u8> {
    std::fs::read(support::reference(&format!("quant/{file}"))).unwrap()
}

/// Every stored type that has reference rows: all but F32, whose rows are `input.f32` itself, and I32, which
/// no weight has.
fn types_with_reference() -> Vec<DType> {
    DType::all().filter(|dtype| !matches!(dtype, DType::F32 | DType::I32)).collect()
}

fn bits_of(f32_bytes: &[u8]) -> Vec<u32> {
    f32_bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn assert_same_bits(dtype: DType, got: &[f32], expected: &[u32]) {
    assert_eq!(got.len(), expected.len(), "{dtype}");
    for (i, (got, &expected)) in got.iter().zip(expected).enumerate() {
        let (row, column) = (i / ROW_LEN, i % ROW_LEN);
        let expected_value = f32::from_bits(expected);
        assert_eq!(
            got.to_bits(),
            expected,
            "{dtype} row {row} column {column}: {got} is not {expected_value}"
        );
    }
}

#[test]
fn every_type_decodes_to_the_bits_ggml_gives() {
    let types = types_with_reference();
    assert_eq!(types.len(), 15);
    for dtype in types {
        let mut out = vec![f32::NAN; N_ROWS * ROW_LEN];
        dequantise_row(dtype, &rows(&format!("{dtype}.bin")), &mut out);
        assert_same_bits(dtype, &out, &bits_of(&rows(&format!("{dtype}.f32"))));
    }
}

#[test]
fn f32_passes_through_unchanged() {
    let bytes = rows("input.f32");
    let mut out = vec![f32::NAN; N_ROWS * ROW_LEN];
    dequantise_row(DType::F32, &bytes, &mut out);
    assert_same_bits(DType::F32, &out, &bits_of(&bytes));
}

#[test]
fn a_row_decodes_alone_and_at_an_odd_address() {
    for dtype in types_with_reference() {
        let bytes = rows(&format!("{dtype}.bin"));
        let row_bytes = bytes.len() / N_ROWS;
        let expected = bits_of(&rows(&format!("{dtype}.f32")));
        for row in 0..N_ROWS {
            let mut shifted = vec![0xaa; 1];
            shifted.extend_from_slice(&bytes[row * row_bytes..][..row_bytes]);
            let mut out = vec![f32::NAN; ROW_LEN];
            dequantise_row(dtype, &shifted[1..], &mut out);
            assert_same_bits(dtype, &out, &expected[row * ROW_LEN..][..ROW_LEN]);
        }
    }
}

#[test]
fn all_zero_q4_0_and_q5_0_rows_are_negative_zeros() {
    const ZERO_ROW: usize = 2;
    for dtype in [DType::Q4_0, DType::Q5_0] {
        let bytes = rows(&format!("{dtype}.bin"));
        let row_bytes = bytes.len() / N_ROWS;
        let mut out = vec![f32::NAN; ROW_LEN];
        dequantise_row(dtype, &bytes[ZERO_ROW * row_bytes..][..row_bytes], &mut out);
        assert!(out.iter().all(|y| y.to_bits() == (-0.0f32).to_bits()), "{dtype}");
    }
}

#[test]
#[should_panic(expected = "512 elements of Q4_K")]
fn a_row_of_the_wrong_size_is_a_caller_bug() {
    dequantise_row(DType::Q4K, &[0; 287], &mut [0.0; 512]);
}
