const STORED_AT_ONCE = 2u;

fn store(cell: u32, word: u32, from: u32) {
    region[cell * (ROW_ELEMS / 2u) + word] = halves(x_load(from), x_load(from + 1u));
}
