const STORED_AT_ONCE = 1u;

fn store(cell: u32, word: u32, first: u32) {
    region[cell * ROW_ELEMS + word] = bitcast<u32>(x_load(first));
}
