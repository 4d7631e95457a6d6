const UNIT = 2u;

fn put_key(cell: u32, unit: u32) {
    keys[cell * (K_ELEMS / 2u) + unit] = halves(key_element(2u * unit), key_element(2u * unit + 1u));
}

fn put_value(cell: u32, unit: u32) {
    values[cell * (V_ELEMS / 2u) + unit] = halves(value_element(2u * unit), value_element(2u * unit + 1u));
}
