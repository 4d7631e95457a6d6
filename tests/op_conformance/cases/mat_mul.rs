use minfer::graph::{ActivationPrecision, MatMul};
use minfer::tensor::{DType, Shape, Tensor, TensorBytes};
use minfer::vec_ops::scalar::dequant::dequantise_row;

use crate::harness::{Case, f64s, values};

const N_IN: usize = 256;
const N_OUT: usize = 37;

pub(crate) fn check() {
    for n_tokens in [1, 5] {
        for dtype in DType::all().filter(|dtype| *dtype != DType::I32) {
            for activations in [ActivationPrecision::Bits8, ActivationPrecision::Bits16] {
                check_with(weight_of(dtype), n_tokens, activations);
            }
        }
    }
}

fn weight_of(dtype: DType) -> Tensor {
    weight(dtype, N_IN, N_OUT)
}

/// A matrix `[n_in, n_out]` of reasonable size: arbitrary numbers or blocks.
pub(crate) fn weight(dtype: DType, n_in: usize, n_out: usize) -> Tensor {
    let shape = Shape::d2(n_in, n_out);
    let bytes = match dtype {
        DType::F32 => bytemuck::cast_slice(&values(shape.n_elems(), 7)).to_vec(),
        DType::F16 => {
            values(shape.n_elems(), 7).iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect()
        }
        DType::BF16 => {
            values(shape.n_elems(), 7).iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect()
        }
        _ => quantised_blocks(dtype, shape.n_elems()),
    };
    Tensor { dtype, shape, bytes: TensorBytes::owned(&bytes) }
}

/// Blocks from `tests/reference/quant`, repeated.
fn quantised_blocks(dtype: DType, n_elems: usize) -> Vec<u8> {
    let path = format!("{}/tests/reference/quant/{}.bin", env!("CARGO_MANIFEST_DIR"), dtype.name());
    let blocks = std::fs::read(path).unwrap();
    let n_bytes = dtype.bytes_for(n_elems).unwrap();
    let tame = |block: &&[u8]| {
        let mut values = vec![0.0; dtype.block_elems()];
        dequantise_row(dtype, block, &mut values);
        values.iter().all(|x| x.abs() < 4.0)
    };
    let tame: Vec<&[u8]> = blocks.chunks_exact(dtype.block_bytes()).filter(tame).collect();
    tame.into_iter().flatten().copied().cycle().take(n_bytes).collect()
}

fn check_with(weight: Tensor, n_tokens: usize, activations: ActivationPrecision) {
    let (x, bias) = (values(N_IN * n_tokens, 3), values(N_OUT, 4));
    let mut dense = vec![0.0; N_IN * N_OUT];
    for (row, out) in dense.chunks_mut(N_IN).enumerate() {
        dequantise_row(weight.dtype, weight.row(row), out);
    }
    // Rounded to a step of a block's largest value over 127, or over that of what is left. A bound on the
    // error is far off, because the errors of different elements have different signs.
    let norm =
        dense.chunks(N_IN).map(|row| row.iter().map(|w| w * w).sum::<f32>().sqrt()).fold(0.0, f32::max);
    let tolerance = match (weight.dtype.is_quantised(), activations) {
        (false, _) => 1e-5,
        (true, ActivationPrecision::Bits8) => 0.025 * f64::from(norm),
        (true, ActivationPrecision::Bits16) => 0.0001 * f64::from(norm),
    };
    for with_bias in [false, true] {
        let mut case = Case::new(n_tokens);
        let w = case.weight(weight.clone());
        let b = case.weight(Tensor::from_f32(Shape::d1(N_OUT), &bias));
        let a = case.value(Shape::d2(N_IN, n_tokens), &x);
        let weights = if with_bias { vec![&w, &b] } else { vec![&w] };
        let result = case.apply(MatMul { bias: with_bias, activations }, &[a], &weights);
        let mut expected = Vec::new();
        for x in x.chunks(N_IN) {
            for (row, bias) in dense.chunks(N_IN).zip(&bias) {
                let product: f64 = f64s(x).iter().zip(f64s(row)).map(|(x, w)| x * w).sum();
                expected.push(product + if with_bias { f64::from(*bias) } else { 0.0 });
            }
        }
        case.expect(result, &[], &expected, tolerance);
    }
}
