const UNIT = 32u;

fn put_key(cell: u32, unit: u32) {
    var block: array<f32, 32>;
    var top = 0u;
    for (var i = 0u; i < 32u; i++) {
        block[i] = key_element(unit * 32u + i);
        top = max(top, magnitude(block[i]));
    }
    let scale = block_scale(top);
    let at = cell * (K_ELEMS / 4u) + unit * 8u;
    for (var i = 0u; i < 32u; i += 4u) {
        let x = vec4<f32>(block[i], block[i + 1u], block[i + 2u], block[i + 3u]);
        keys[at + i / 4u] = quants4(x, scale);
    }
    keys[p.n_cells * (K_ELEMS / 4u) + cell * (K_ELEMS / 32u) + unit] = kept_scale(top);
}

fn put_value(cell: u32, unit: u32) {
    var block: array<f32, 32>;
    var top = 0u;
    for (var i = 0u; i < 32u; i++) {
        block[i] = value_element(unit * 32u + i);
        top = max(top, magnitude(block[i]));
    }
    let scale = block_scale(top);
    let at = cell * (V_ELEMS / 4u) + unit * 8u;
    for (var i = 0u; i < 32u; i += 4u) {
        let x = vec4<f32>(block[i], block[i + 1u], block[i + 2u], block[i + 3u]);
        values[at + i / 4u] = quants4(x, scale);
    }
    values[p.n_cells * (V_ELEMS / 4u) + cell * (V_ELEMS / 32u) + unit] = kept_scale(top);
}
