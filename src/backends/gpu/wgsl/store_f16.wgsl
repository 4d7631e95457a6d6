const STORED_AT_ONCE = 2u;

fn store(cell: u32, word: u32, first: u32) {
    region[cell * (ROW_ELEMS / 2u) + word] = halves(x_load(first), x_load(first + 1u));
}
