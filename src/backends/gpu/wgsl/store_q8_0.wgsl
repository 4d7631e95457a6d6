const STORED_AT_ONCE = 32u;

fn store(cell: u32, block: u32, first: u32) {
    var top = 0u;
    for (var i = 0u; i < 32u; i++) {
        top = max(top, magnitude(x_load(first + i)));
    }
    let scale = block_scale(top);
    let at = cell * (ROW_ELEMS / 4u) + block * 8u;
    for (var i = 0u; i < 8u; i++) {
        let start = first + i * 4u;
        let x = vec4<f32>(x_load(start), x_load(start + 1u), x_load(start + 2u), x_load(start + 3u));
        region[at + i] = quants4(x, scale);
    }
    region[p.n_cells * (ROW_ELEMS / 4u) + cell * (ROW_ELEMS / 32u) + block] = kept_scale(top);
}
