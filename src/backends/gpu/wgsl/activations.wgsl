// Elements i .. i + 4 of token `col`, zero beyond the row. Kernels go on in steps of 16 or 32 elements.
fn x4(col: u32, i: u32) -> vec4<f32> {
    let at = p.x_at + col * N_IN + i;
    var y = vec4<f32>(0.0);
    if (ALIGNED == 1u) {
        if (N_IN % 32u == 0u || i < N_IN) {
            y = x[at >> 2u];
        }
        return y;
    }
    for (var j = 0u; j < 4u; j++) {
        if (i + j < N_IN) {
            y[j] = x[(at + j) >> 2u][(at + j) & 3u];
        }
    }
    return y;
}
