use super::*;
use crate::vec_ops::{Isa, rows};

const N_CELLS: usize = 96;
const K: usize = 70;
const V: usize = 9;

/// Regions in which every element says where it is.
fn filled(format: KvFormat) -> KvRegions {
    let mut regions = KvRegions::default();
    let shape = KvShape { n_cells: N_CELLS, k_row_elems: K, v_row_elems: V, format };
    regions.alloc(0, shape).expect("small regions");
    let layer = regions.get_mut(0).expect("layer 0");
    for cell in 0..N_CELLS {
        let (key, value) = rows_of(cell);
        layer.store(rows::table(Isa::best()), cell, &key, &value);
    }
    regions
}

fn rows_of(cell: usize) -> (Vec<f32>, Vec<f32>) {
    let row = |n: usize, step: f32| (0..n).map(|i| cell as f32 + i as f32 * step).collect();
    (row(K, 0.125), row(V, 0.25))
}

/// The key and value of a cell, read as attention reads them.
fn read_cell(layer: &KvLayer, cell: usize) -> (Vec<f32>, Vec<f32>) {
    let (page, lane) = (cell / PAGE_TOKENS, cell % PAGE_TOKENS);
    let kernels = rows::table(Isa::Scalar);
    let mut keys = vec![0.0; K * PAGE_TOKENS];
    layer.read_keys(kernels, page, 0..K, &mut keys);
    let mut values = vec![0.0; 16 * PAGE_TOKENS];
    layer.read_values(kernels, page, 0..V, 16, &mut values);
    let key = keys.iter().skip(lane).step_by(PAGE_TOKENS).copied().collect();
    (key, values[lane * 16..lane * 16 + V].to_vec())
}

#[test]
fn rows_come_back_from_the_cells_they_were_stored_to() {
    for format in [KvFormat::F16, KvFormat::F32] {
        let regions = filled(format);
        for cell in 0..N_CELLS {
            assert_eq!(read_cell(regions.get(0).expect("layer 0"), cell), rows_of(cell));
        }
    }
}

#[test]
fn copied_cells_hold_what_the_source_cells_held() {
    for format in [KvFormat::F16, KvFormat::F32] {
        for (from, to, n) in [(0, 64, 32), (64, 0, 32), (3, 40, 29), (10, 14, 20), (14, 10, 20), (5, 5, 1)] {
            let mut regions = filled(format);
            regions.copy_cells(from, to, n).expect("cells within the regions");
            for cell in 0..N_CELLS {
                let source = if (to..to + n).contains(&cell) { cell - to + from } else { cell };
                assert_eq!(read_cell(regions.get(0).expect("layer 0"), cell), rows_of(source), "cell {cell}");
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
