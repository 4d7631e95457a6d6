//! Dequantisation: the meaning of every stored element type, as f32.
//!
//! Products and sums are rounded one by one (no fused multiply-add) and in this order, so that the result has
//! the same bits on every machine. Signed zeros are kept.

use half::{bf16, f16};

use crate::tensor::{
    Block, BlockIQ4NL, BlockIQ4XS, BlockMXFP4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, DType, IQ4_VALUES, MXFP4_VALUES, unpack_scales_and_mins,
};

/// Decodes consecutive elements of type `dtype` into `out: [n] f32`. `bytes` may start at any address. I32
/// values are rounded to f32.
///
/// # Panics
/// If `bytes` is not exactly what `out.len()` elements of `dtype` take.
pub fn dequantise_row(dtype: DType, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(dtype.bytes_for(out.len()), Some(bytes.len()), "{} elements of {dtype}", out.len());
    match dtype {
        DType::F32 => plain(bytes, out, f32::from_le_bytes),
        DType::F16 => plain(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
        DType::BF16 => plain(bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
        DType::I32 => plain(bytes, out, |b| i32::from_le_bytes(b) as f32),
        DType::Q4_0 => blocks(bytes, out, q4_0),
        DType::Q4_1 => blocks(bytes, out, q4_1),
        DType::Q5_0 => blocks(bytes, out, q5_0),
        DType::Q5_1 => blocks(bytes, out, q5_1),
        DType::Q8_0 => blocks(bytes, out, q8_0),
        DType::Q2K => blocks(bytes, out, q2_k),
        DType::Q3K => blocks(bytes, out, q3_k),
        DType::Q4K => blocks(bytes, out, q4_k),
        DType::Q5K => blocks(bytes, out, q5_k),
        DType::Q6K => blocks(bytes, out, q6_k),
        DType::IQ4NL => blocks(bytes, out, iq4_nl),
        DType::IQ4XS => blocks(bytes, out, iq4_xs),
        DType::MXFP4 => blocks(bytes, out, mxfp4),
    }
}

fn plain<const N: usize>(bytes: &[u8], out: &mut [f32], decode: impl Fn([u8; N]) -> f32) {
    let (elems, _) = bytes.as_chunks::<N>();
    for (y, elem) in out.iter_mut().zip(elems) {
        *y = decode(*elem);
    }
}

fn blocks<B: Block>(bytes: &[u8], out: &mut [f32], decode: impl Fn(&B, &mut [f32])) {
    let blocks: &[B] = bytemuck::cast_slice(bytes);
    for (block, y) in blocks.iter().zip(out.chunks_exact_mut(B::DTYPE.block_elems())) {
        decode(block, y);
    }
}

/// Decodes 32 nibbles: low ones are elements 0 to 15, high ones 16 to 31. `value` gets the nibble and the
/// element's index.
fn nibbles(qs: &[u8], y: &mut [f32], value: impl Fn(u8, usize) -> f32) {
    let (first, second) = y.split_at_mut(qs.len());
    for (i, &q) in qs.iter().enumerate() {
        first[i] = value(q & 0x0f, i);
        second[i] = value(q >> 4, i + qs.len());
    }
}

fn q4_0(b: &BlockQ4_0, y: &mut [f32]) {
    let d = b.d.to_f32();
    nibbles(&b.qs, y, |q, _| f32::from(q as i8 - 8) * d);
}

fn q4_1(b: &BlockQ4_1, y: &mut [f32]) {
    let (d, m) = (b.d.to_f32(), b.m.to_f32());
    nibbles(&b.qs, y, |q, _| f32::from(q) * d + m);
}

/// The fifth bit of element `i`, in place above a nibble.
pub(super) fn fifth_bit(qh: [u8; 4], i: usize) -> u8 {
    ((u32::from_le_bytes(qh) >> i) as u8 & 1) << 4
}

fn q5_0(b: &BlockQ5_0, y: &mut [f32]) {
    let d = b.d.to_f32();
    nibbles(&b.qs, y, |q, i| f32::from((q | fifth_bit(b.qh, i)) as i8 - 16) * d);
}

fn q5_1(b: &BlockQ5_1, y: &mut [f32]) {
    let (d, m) = (b.d.to_f32(), b.m.to_f32());
    nibbles(&b.qs, y, |q, i| f32::from(q | fifth_bit(b.qh, i)) * d + m);
}

fn q8_0(b: &BlockQ8_0, y: &mut [f32]) {
    let d = b.d.to_f32();
    for (y, &q) in y.iter_mut().zip(&b.qs) {
        *y = f32::from(q) * d;
    }
}

/// The two-bit number of element `i` of a 256-element block: four planes of 32 elements per half of `qs`.
fn two_bits(qs: &[u8], i: usize) -> u8 {
    let (half, plane, column) = (i / 128, i % 128 / 32, i % 32);
    (qs[half * 32 + column] >> (plane * 2)) & 0x03
}

fn q2_k(b: &BlockQ2K, y: &mut [f32]) {
    let (d, dmin) = (b.d.to_f32(), b.dmin.to_f32());
    for (i, y) in y.iter_mut().enumerate() {
        let scales = b.scales[i / 16];
        let (scale, min) = (d * f32::from(scales & 0x0f), dmin * f32::from(scales >> 4));
        *y = scale * f32::from(two_bits(&b.qs, i)) - min;
    }
}

fn q3_k(b: &BlockQ3K, y: &mut [f32]) {
    let d = b.d.to_f32();
    let scales = b.unpack_scales();
    for (i, y) in y.iter_mut().enumerate() {
        let third_bit = (b.hmask[i % 32] >> (i / 32)) & 1;
        let q = two_bits(&b.qs, i) as i8 - if third_bit == 1 { 0 } else { 4 };
        *y = d * f32::from(scales[i / 16]) * f32::from(q);
    }
}

fn q4_k(b: &BlockQ4K, y: &mut [f32]) {
    let (d, dmin) = (b.d.to_f32(), b.dmin.to_f32());
    let (scales, mins) = unpack_scales_and_mins(&b.scales);
    for (quarter, (qs, y)) in b.qs.chunks_exact(32).zip(y.chunks_exact_mut(64)).enumerate() {
        nibbles(qs, y, |q, i| {
            let group = quarter * 2 + i / 32;
            d * f32::from(scales[group]) * f32::from(q) - dmin * f32::from(mins[group])
        });
    }
}

fn q5_k(b: &BlockQ5K, y: &mut [f32]) {
    let (d, dmin) = (b.d.to_f32(), b.dmin.to_f32());
    let (scales, mins) = unpack_scales_and_mins(&b.scales);
    for (quarter, (qs, y)) in b.qs.chunks_exact(32).zip(y.chunks_exact_mut(64)).enumerate() {
        nibbles(qs, y, |q, i| {
            let group = quarter * 2 + i / 32;
            let q = q | ((b.qh[i % 32] >> group) & 1) << 4;
            d * f32::from(scales[group]) * f32::from(q) - dmin * f32::from(mins[group])
        });
    }
}

fn q6_k(b: &BlockQ6K, y: &mut [f32]) {
    let d = b.d.to_f32();
    let halves = b.ql.chunks_exact(64).zip(y.chunks_exact_mut(128));
    for (half, (ql, y)) in halves.enumerate() {
        nibbles(ql, y, |q, i| {
            let i = half * 128 + i;
            let q = (q | two_bits(&b.qh, i) << 4) as i8 - 32;
            d * f32::from(b.scales[i / 16]) * f32::from(q)
        });
    }
}

fn iq4_nl(b: &BlockIQ4NL, y: &mut [f32]) {
    let d = b.d.to_f32();
    nibbles(&b.qs, y, |q, _| d * f32::from(IQ4_VALUES[usize::from(q)]));
}

fn iq4_xs(b: &BlockIQ4XS, y: &mut [f32]) {
    let d = b.d.to_f32();
    let groups = b.qs.chunks_exact(16).zip(y.chunks_exact_mut(32));
    for (scale, (qs, y)) in b.unpack_scales().into_iter().zip(groups) {
        let scale = d * f32::from(scale);
        nibbles(qs, y, |q, _| scale * f32::from(IQ4_VALUES[usize::from(q)]));
    }
}

fn mxfp4(b: &BlockMXFP4, y: &mut [f32]) {
    let d = b.scale();
    nibbles(&b.qs, y, |q, _| d * f32::from(MXFP4_VALUES[usize::from(q)]));
}
