const UNIT = 1u;

fn put_key(cell: u32, unit: u32) {
    keys[cell * K_ELEMS + unit] = bitcast<u32>(key_element(unit));
}

fn put_value(cell: u32, unit: u32) {
    values[cell * V_ELEMS + unit] = bitcast<u32>(value_element(unit));
}
