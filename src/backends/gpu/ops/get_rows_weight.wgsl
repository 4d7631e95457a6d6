// Rows of a weight, unpacked: 16 elements per invocation. A part holds the rows part_row .. part_row +
// n_rows; ids of other rows are left to other parts, and what is no row at all becomes NaN.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let per_row = (N_IN + 15u) / 16u;
    let i = flat(wg) * 64u + local;
    let line = i / per_row;
    let e = (i % per_row) * 16u;
    if (line >= p.n_lines) {
        return;
    }
    let id = bitcast<u32>(ids[p.ids_at + line]);
    let inside = id >= p.part_row && id - p.part_row < p.n_rows;
    if (!inside && (id < p.n_all || p.part_row > 0u)) {
        return;
    }
    var y: mat4x4<f32>;
    if (inside) {
        y = weight16((p.first_row + id - p.part_row) * ROW_BYTES, e);
    } else {
        let nan = vec4<f32>(bitcast<f32>(p.nan));
        y = mat4x4<f32>(nan, nan, nan, nan);
    }
    let to = p.out_at + line * N_IN + e;
    for (var k = 0u; k < 16u && e + k < N_IN; k++) {
        out[to + k] = y[k >> 2u][k & 3u];
    }
}
