// Many tokens times a matrix: a workgroup computes 64 rows for 64 tokens, an invocation 8 rows for 4 tokens.
//   x [N_IN, n_cols], weights rows of ROW_BYTES, out [out_stride, n_cols]
// Tiles of 32 elements of the rows and of the tokens are unpacked into workgroup memory, one element of all
// 64 next to the other.

var<workgroup> w_tile: array<vec4<f32>, 512>;
var<workgroup> x_tile: array<vec4<f32>, 512>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row0 = flat(wg) * 64u;
    let col0 = wg.z * 64u;
    // What this invocation unpacks: 16 elements of one row and of one token.
    let line = local & 63u;
    let half = (local >> 6u) * 16u;
    let row_at = (p.first_row + min(row0 + line, p.n_rows - 1u)) * ROW_BYTES;
    let x_col = min(col0 + line, p.n_cols - 1u);
    // What it computes.
    let my_row = (local & 7u) * 2u;
    let my_col = local >> 3u;

    var low: array<vec4<f32>, 4>;
    var high: array<vec4<f32>, 4>;
    for (var j = 0u; j < 4u; j++) {
        low[j] = vec4<f32>(0.0);
        high[j] = vec4<f32>(0.0);
    }
    for (var start = 0u; start < N_IN; start += 32u) {
        let e = start + half;
        var w: mat4x4<f32>;
        if (e < N_IN) {
            w = weight16(row_at, e);
        }
        for (var k = 0u; k < 4u; k++) {
            let y = x4(x_col, e + 4u * k);
            for (var j = 0u; j < 4u; j++) {
                let to = (half + 4u * k + j) * 16u + (line >> 2u);
                w_tile[to][line & 3u] = select(0.0, w[k][j], e + 4u * k + j < N_IN);
                x_tile[to][line & 3u] = y[j];
            }
        }
        workgroupBarrier();
        for (var k = 0u; k < 32u; k++) {
            let a = w_tile[k * 16u + my_row];
            let b = w_tile[k * 16u + my_row + 1u];
            let y = x_tile[k * 16u + my_col];
            for (var j = 0u; j < 4u; j++) {
                low[j] = fma(a, vec4<f32>(y[j]), low[j]);
                high[j] = fma(b, vec4<f32>(y[j]), high[j]);
            }
        }
        workgroupBarrier();
    }
    for (var j = 0u; j < 4u; j++) {
        let col = col0 + my_col * 4u + j;
        if (col >= p.n_cols) {
            continue;
        }
        for (var i = 0u; i < 8u; i++) {
            let row = row0 + my_row * 4u + i;
            if (row < p.n_rows) {
                var value = select(low[j][i & 3u], high[j][i & 3u], i >= 4u);
                if (BIAS == 1u) {
                    value += bias_load(p.out_row + row);
                }
                let to = col * p.out_stride + p.out_row + row;
                if (ADD == 1u) {
                    value += residual_load(to);
                }
                out[p.out_at + to] = value;
            }
        }
    }
}
