use super::*;
use crate::vec_ops::{Isa, rows};

const N_CELLS: usize = 96;

/// Elements of a key and of a value row.
fn row_elems(format: KvFormat) -> (usize, usize) {
    match format {
        KvFormat::Q8_0 => (96, 64),
        _ => (70, 9),
    }
}

const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];

/// Regions in which every element says where it is.
fn filled(format: KvFormat) -> KvRegions {
    let mut regions = KvRegions::default();
    let (k_row_elems, v_row_elems) = row_elems(format);
    let shape = KvShape { n_cells: N_CELLS, k_row_elems, v_row_elems, format };
    regions.alloc(0, shape).expect("small regions");
    let layer = regions.get_mut(0).expect("layer 0");
    for cell in 0..N_CELLS {
        let (key, value) = rows_of(cell, format);
        layer.store(rows::table(Isa::best()), cell, &key, &value);
    }
    regions
}

/// Numbers that every format holds exactly: of 32 in a row, the largest is 127 times a power of two, and so
/// all are multiples of the scale.
fn rows_of(cell: usize, format: KvFormat) -> (Vec<f32>, Vec<f32>) {
    let element = |i: usize, step: f32| match i % 32 {
        7 => 127.0 * step,
        lane => ((cell * 5 + i * 3 + lane) % 255) as f32 * step - 127.0 * step,
    };
    let step = |i: usize| 0.125 * (1 << (i / 32 + cell % 3)) as f32;
    let row = |n: usize| (0..n).map(|i| element(i, step(i))).collect();
    let (n_k, n_v) = row_elems(format);
    (row(n_k), row(n_v))
}

/// The key and value of a cell, read as attention reads them.
fn read_cell(layer: &KvLayer, cell: usize) -> (Vec<f32>, Vec<f32>) {
    let (page, lane) = (cell / PAGE_TOKENS, cell % PAGE_TOKENS);
    let kernels = rows::table(Isa::Scalar);
    let KvShape { k_row_elems, v_row_elems, .. } = *layer.shape();
    let stride = v_row_elems.next_multiple_of(8);
    let mut values = vec![0.0; stride * PAGE_TOKENS];
    layer.read_values(kernels, page, 0..v_row_elems, stride, &mut values);
    let key = key_part(layer, cell, 0..k_row_elems);
    (key, values[lane * stride..lane * stride + v_row_elems].to_vec())
}

/// Some elements of the key of a cell.
fn key_part(layer: &KvLayer, cell: usize, columns: Range<usize>) -> Vec<f32> {
    let mut keys = vec![0.0; columns.len() * PAGE_TOKENS];
    layer.read_keys(rows::table(Isa::Scalar), cell / PAGE_TOKENS, columns, &mut keys);
    keys.iter().skip(cell % PAGE_TOKENS).step_by(PAGE_TOKENS).copied().collect()
}

#[test]
fn rows_come_back_from_the_cells_they_were_stored_to() {
    for format in FORMATS {
        let regions = filled(format);
        for cell in 0..N_CELLS {
            let layer = regions.get(0).expect("layer 0");
            assert_eq!(read_cell(layer, cell), rows_of(cell, format), "{format:?} cell {cell}");
            assert_eq!(
                key_part(layer, cell, 32..64),
                rows_of(cell, format).0[32..64],
                "{format:?} cell {cell}"
            );
        }
    }
}

#[test]
fn copied_cells_hold_what_the_source_cells_held() {
    for format in FORMATS {
        for (from, to, n) in
            [(0, 64, 32), (64, 0, 32), (3, 40, 29), (10, 14, 20), (14, 10, 20), (5, 5, 1), (7, 9, 0)]
        {
            let mut regions = filled(format);
            regions.copy_cells(from, to, n).expect("cells within the regions");
            for cell in 0..N_CELLS {
                let source = if (to..to + n).contains(&cell) { cell - to + from } else { cell };
                let (got, expected) =
                    (read_cell(regions.get(0).expect("layer 0"), cell), rows_of(source, format));
                assert_eq!(got, expected, "{format:?} cell {cell}");
            }
        }
    }
}

#[test]
fn copying_beyond_the_regions_is_an_error() {
    let mut regions = filled(KvFormat::F16);
    assert!(regions.copy_cells(0, 65, 32).is_err());
    assert!(regions.copy_cells(usize::MAX, 0, 2).is_err());
}

#[test]
fn regions_take_the_bytes_of_their_format() {
    for (format, bytes) in [(KvFormat::F32, 4 * 96), (KvFormat::F16, 2 * 96), (KvFormat::Q8_0, 3 * 34)] {
        let mut regions = KvRegions::default();
        let shape = KvShape { n_cells: 64, k_row_elems: 96, v_row_elems: 96, format };
        regions.alloc(0, shape).expect("small regions");
        let layer = regions.get(0).expect("layer 0");
        assert_eq!((layer.keys.len(), layer.values.len()), (64 * bytes, 64 * bytes));
        let spec = shape.spec();
        assert_eq!(spec.dtype.bytes_for(spec.shape.n_elems()), Some(2 * 64 * bytes));
    }
}

#[test]
fn rows_that_are_no_whole_blocks_are_refused() {
    let shape = KvShape { n_cells: 64, k_row_elems: 48, v_row_elems: 32, format: KvFormat::Q8_0 };
    assert!(KvRegions::default().alloc(0, shape).is_err());
}
