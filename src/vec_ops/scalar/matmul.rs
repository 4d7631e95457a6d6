//! The matmul kernels' meaning, in plain arithmetic.

use half::{bf16, f16};

use super::elementwise::add_lanes;
use super::matmul_unpack as unpack;
use crate::vec_ops::Isa;
use crate::vec_ops::matmul::panel::{
    ActivationBlock, BLOCK, CentredFiveBit, CentredNibble, FLOAT_TOKENS, FiveBit, Form, GROUP_ROWS, Mins,
    Nibble, PanelBlock, RowGroup, SignedByte, SixBit, ThreeBit, Tile, TinyFloat, TwoBit,
};
use crate::vec_ops::matmul::{QuantKernel, Table};

/// Both halves of a type's matmul; nothing is asked for ahead.
macro_rules! kernel {
    ($unpack:path, $form:ty) => {
        QuantKernel {
            unpack: |rows, first, panel, _| $unpack(rows, first, panel),
            dot: dot::<$form>,
            single: None,
        }
    };
}

pub(in crate::vec_ops) static TABLE: Table = Table {
    isa: Isa::Scalar,
    quantise,
    f32: |rows, tokens, out| float_dot(rows, tokens, out, f32::from_le_bytes),
    f16: |rows, tokens, out| float_dot(rows, tokens, out, |b| f16::from_le_bytes(b).to_f32()),
    bf16: |rows, tokens, out| float_dot(rows, tokens, out, |b| bf16::from_le_bytes(b).to_f32()),
    q4_0: kernel!(unpack::q4_0, CentredNibble),
    q4_1: kernel!(unpack::q4_1, Nibble),
    q5_0: kernel!(unpack::q5_0, CentredFiveBit),
    q5_1: kernel!(unpack::q5_1, FiveBit),
    q8_0: kernel!(unpack::q8_0, SignedByte),
    q2_k: kernel!(unpack::q2_k, TwoBit),
    q3_k: kernel!(unpack::q3_k, ThreeBit),
    q4_k: kernel!(unpack::q4_k, Nibble),
    q5_k: kernel!(unpack::q5_k, FiveBit),
    q6_k: kernel!(unpack::q6_k, SixBit),
    iq4_nl: kernel!(unpack::iq4_nl, SignedByte),
    iq4_xs: kernel!(unpack::iq4_xs, SignedByte),
    mxfp4: kernel!(unpack::mxfp4, TinyFloat),
};

fn dot<F: Form>(panels: &[&[PanelBlock]], tokens: &[&[ActivationBlock]], tile: &mut Tile) {
    for (panel, sums) in panels.iter().zip(tile) {
        for (token, sums) in tokens.iter().zip(sums) {
            assert_eq!(panel.len(), token.len(), "weights and activations have as many blocks");
            for (w, a) in panel.iter().zip(*token) {
                add_block::<F>(w, a, sums);
            }
        }
    }
}

/// One step of the sums of eight rows.
fn add_block<F: Form>(w: &PanelBlock, a: &ActivationBlock, sums: &mut [f32; GROUP_ROWS]) {
    let halves = [half_products::<F>(w, a, 0), half_products::<F>(w, a, 1)];
    let pair =
        |factors: [i16; 2], sums: [i32; 2]| i32::from(factors[0]) * sums[0] + i32::from(factors[1]) * sums[1];
    for (row, sum) in sums.iter_mut().enumerate() {
        let products = [halves[0][row], halves[1][row]];
        let total =
            if F::HALF_SCALES { pair(w.half_scales[row], products) } else { products[0] + products[1] };
        *sum += total as f32 * a.scale * w.scale[row];
        match F::MINS {
            Mins::None => {}
            Mins::PerBlock => *sum -= a.scaled_sum * w.min[row],
            Mins::PerHalf => {
                let mins = pair(w.half_mins[row], a.half_sums.map(i32::from));
                *sum -= mins as f32 * a.scale * w.min[row];
            }
        }
    }
}

/// The exact products of half a block, summed per row.
fn half_products<F: Form>(w: &PanelBlock, a: &ActivationBlock, half: usize) -> [i32; GROUP_ROWS] {
    let value = |byte: u8| {
        if F::SIGNED { i32::from(byte as i8) } else { i32::from(byte) - i32::from(F::OFFSET) }
    };
    let mut sums = [0; GROUP_ROWS];
    let quads = w.quants.iter().zip(a.quants.as_chunks::<4>().0);
    for (rows, a) in quads.skip(half * BLOCK / 8).take(BLOCK / 8) {
        for (sum, w) in sums.iter_mut().zip(rows) {
            *sum += w.iter().zip(a).map(|(&w, &a)| value(w) * i32::from(a)).sum::<i32>();
        }
    }
    sums
}

fn quantise(x: &[f32], blocks: &mut [ActivationBlock]) {
    assert_eq!(x.len(), blocks.len() * BLOCK, "activations fill the blocks");
    for (x, block) in x.as_chunks::<BLOCK>().0.iter().zip(blocks) {
        *block = quantise_block(x);
    }
}

fn quantise_block(x: &[f32; BLOCK]) -> ActivationBlock {
    // Magnitudes compare like their bit patterns, with infinity and then NaN above all numbers.
    let amax = f32::from_bits(x.iter().map(|x| x.abs().to_bits()).max().unwrap_or(0));
    if !amax.is_finite() {
        return ActivationBlock { scale: f32::NAN, scaled_sum: f32::NAN, ..ActivationBlock::ZERO };
    }
    let inverse = 127.0 / amax;
    if !inverse.is_finite() {
        return ActivationBlock::ZERO;
    }
    let scale = amax / 127.0;
    let quants = x.map(|x| (x * inverse).round_ties_even() as i8);
    let sum = |half: &[i8]| half.iter().map(|&q| i16::from(q)).sum::<i16>();
    let half_sums = [sum(&quants[..BLOCK / 2]), sum(&quants[BLOCK / 2..])];
    let scaled_sum = f32::from(half_sums[0] + half_sums[1]) * scale;
    ActivationBlock { quants, scale, scaled_sum, half_sums }
}

fn float_dot<const BYTES: usize>(
    rows: &RowGroup<'_>,
    tokens: &[&[f32]],
    out: &mut [[f32; GROUP_ROWS]; FLOAT_TOKENS],
    decode: impl Fn([u8; BYTES]) -> f32,
) {
    for (x, sums) in tokens.iter().zip(out) {
        for (row, sum) in rows.iter().zip(sums) {
            let (row, _) = row.as_chunks::<BYTES>();
            assert_eq!(row.len(), x.len(), "weights and activations have as many elements");
            let mut lanes = [0.0; 8];
            for (w, x) in row.chunks(8).zip(x.chunks(8)) {
                for ((lane, w), x) in lanes.iter_mut().zip(w).zip(x) {
                    *lane += decode(*w) * x;
                }
            }
            *sum = add_lanes(lanes);
        }
    }
}
