//! Weight blocks to panels: what each type's 32 elements are as stored integers and scales.

use super::dequant::fifth_bit;
use crate::tensor::{
    Block, BlockIQ4NL, BlockIQ4XS, BlockMXFP4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, IQ4_VALUES, MXFP4_VALUES, unpack_scales_and_mins,
};
use crate::vec_ops::matmul::panel::{BLOCK, Form, PanelBlock, RowGroup, TinyFloat};

/// 32 elements of one row; the fields are those of [`PanelBlock`].
#[derive(Default)]
struct RowBlock {
    quants: [u8; BLOCK],
    scale: f32,
    min: f32,
    half_scales: [i16; 2],
    half_mins: [i16; 2],
}

/// Fills the panel with `decode(block, part)`: the `part`-th 32 elements of a stored block.
fn unpack<B: Block>(
    rows: &RowGroup<'_>,
    first: usize,
    panel: &mut [PanelBlock],
    decode: impl Fn(&B, usize) -> RowBlock,
) {
    let n_parts = B::DTYPE.block_elems() / BLOCK;
    for (row, bytes) in rows.iter().enumerate() {
        let blocks: &[B] = bytemuck::cast_slice(bytes);
        for (i, out) in panel.iter_mut().enumerate() {
            let index = first + i;
            let block = decode(&blocks[index / n_parts], index % n_parts);
            for (rows, quad) in out.quants.iter_mut().zip(block.quants.as_chunks::<4>().0) {
                rows[row] = *quad;
            }
            out.scale[row] = block.scale;
            out.min[row] = block.min;
            out.half_scales[row] = block.half_scales;
            out.half_mins[row] = block.half_mins;
        }
    }
}

/// Low nibbles, then high nibbles, through `value`, which also gets the element's index.
fn nibbles(qs: &[u8], value: impl Fn(u8, usize) -> u8) -> [u8; BLOCK] {
    std::array::from_fn(|i| {
        let byte = qs[i % 16];
        value(if i < 16 { byte & 0x0f } else { byte >> 4 }, i)
    })
}

pub(super) fn q4_0(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ4_0, _| RowBlock {
        quants: nibbles(&b.qs, |q, _| q),
        scale: b.d.to_f32(),
        ..RowBlock::default()
    });
}

pub(super) fn q4_1(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ4_1, _| RowBlock {
        quants: nibbles(&b.qs, |q, _| q),
        scale: b.d.to_f32(),
        min: -b.m.to_f32(),
        ..RowBlock::default()
    });
}

pub(super) fn q5_0(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ5_0, _| RowBlock {
        quants: nibbles(&b.qs, |q, i| q | fifth_bit(b.qh, i)),
        scale: b.d.to_f32(),
        ..RowBlock::default()
    });
}

pub(super) fn q5_1(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ5_1, _| RowBlock {
        quants: nibbles(&b.qs, |q, i| q | fifth_bit(b.qh, i)),
        scale: b.d.to_f32(),
        min: -b.m.to_f32(),
        ..RowBlock::default()
    });
}

pub(super) fn q8_0(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ8_0, _| RowBlock {
        quants: b.qs.map(|q| q as u8),
        scale: b.d.to_f32(),
        ..RowBlock::default()
    });
}

pub(super) fn iq4_nl(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockIQ4NL, _| RowBlock {
        quants: nibbles(&b.qs, |q, _| IQ4_VALUES[usize::from(q)] as u8),
        scale: b.d.to_f32(),
        ..RowBlock::default()
    });
}

pub(super) fn mxfp4(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    let offset = TinyFloat::OFFSET as i8;
    unpack(rows, first, panel, |b: &BlockMXFP4, _| RowBlock {
        quants: nibbles(&b.qs, |q, _| (MXFP4_VALUES[usize::from(q)] + offset) as u8),
        scale: b.scale(),
        ..RowBlock::default()
    });
}

/// The two bits of each element of a part of 32: four parts share 32 bytes.
fn pairs_of_bits(bytes: &[u8], part: usize, i: usize) -> u8 {
    (bytes[part / 4 * BLOCK + i] >> (part % 4 * 2)) & 0x03
}

pub(super) fn q2_k(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ2K, part| {
        let packed = [b.scales[2 * part], b.scales[2 * part + 1]];
        RowBlock {
            quants: std::array::from_fn(|i| pairs_of_bits(&b.qs, part, i)),
            scale: b.d.to_f32(),
            min: b.dmin.to_f32(),
            half_scales: packed.map(|p| i16::from(p & 0x0f)),
            half_mins: packed.map(|p| i16::from(p >> 4)),
        }
    });
}

pub(super) fn q3_k(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ3K, part| {
        let scales = b.unpack_scales();
        RowBlock {
            quants: std::array::from_fn(|i| {
                pairs_of_bits(&b.qs, part, i) | (((b.hmask[i] >> part) & 1) << 2)
            }),
            scale: b.d.to_f32(),
            half_scales: [scales[2 * part], scales[2 * part + 1]].map(i16::from),
            ..RowBlock::default()
        }
    });
}

/// The nibbles of a part of 32: two parts share 32 bytes.
fn quarter_nibble(qs: &[u8], part: usize, i: usize) -> u8 {
    (qs[part / 2 * BLOCK + i] >> (part % 2 * 4)) & 0x0f
}

pub(super) fn q4_k(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ4K, part| {
        let (scales, mins) = unpack_scales_and_mins(&b.scales);
        RowBlock {
            quants: std::array::from_fn(|i| quarter_nibble(&b.qs, part, i)),
            scale: b.d.to_f32() * f32::from(scales[part]),
            min: b.dmin.to_f32() * f32::from(mins[part]),
            ..RowBlock::default()
        }
    });
}

pub(super) fn q5_k(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ5K, part| {
        let (scales, mins) = unpack_scales_and_mins(&b.scales);
        RowBlock {
            quants: std::array::from_fn(|i| quarter_nibble(&b.qs, part, i) | (((b.qh[i] >> part) & 1) << 4)),
            scale: b.d.to_f32() * f32::from(scales[part]),
            min: b.dmin.to_f32() * f32::from(mins[part]),
            ..RowBlock::default()
        }
    });
}

pub(super) fn q6_k(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockQ6K, part| RowBlock {
        quants: std::array::from_fn(|i| {
            let byte = b.ql[part / 4 * 64 + part % 2 * BLOCK + i];
            let low = if part % 4 < 2 { byte & 0x0f } else { byte >> 4 };
            low | (pairs_of_bits(&b.qh, part, i) << 4)
        }),
        scale: b.d.to_f32(),
        half_scales: [b.scales[2 * part], b.scales[2 * part + 1]].map(i16::from),
        ..RowBlock::default()
    });
}

pub(super) fn iq4_xs(rows: &RowGroup<'_>, first: usize, panel: &mut [PanelBlock]) {
    unpack(rows, first, panel, |b: &BlockIQ4XS, part| RowBlock {
        quants: nibbles(&b.qs[part * 16..][..16], |q, _| IQ4_VALUES[usize::from(q)] as u8),
        scale: b.d.to_f32() * f32::from(b.unpack_scales()[part]),
        ..RowBlock::default()
    });
}
