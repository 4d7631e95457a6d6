// Few tokens times a matrix: each group of 32 lanes computes two rows for N_COLS tokens.
//   x [N_IN, n_cols], weights rows of ROW_BYTES, out [out_stride, n_cols]
// NORM: x is normalised first, as RmsNorm would. GATED: the two rows are gate and up of one result.

const N_VALUES = 2u * N_COLS;

fn normed4(value: vec4<f32>, i: u32, inverse: f32) -> vec4<f32> {
    if (NORM == 0u) {
        return value;
    }
    var y = vec4<f32>(0.0);
    for (var j = 0u; j < 4u; j++) {
        if (N_IN % 16u == 0u || i + j < N_IN) {
            y[j] = (value[j] * inverse) * norm_load(i + j);
        }
    }
    return y;
}

// Rows of odd length end inside sixteen elements, and what follows may be anything.
fn masked(w: mat4x4<f32>, e: u32) -> mat4x4<f32> {
    if (N_IN % 16u == 0u || e + 16u <= N_IN) {
        return w;
    }
    var y: mat4x4<f32>;
    for (var k = 0u; k < 4u; k++) {
        let i = vec4<u32>(0u, 1u, 2u, 3u) + e + 4u * k;
        y[k] = select(vec4<f32>(0.0), w[k], i < vec4<u32>(N_IN));
    }
    return y;
}

fn dot16(w: mat4x4<f32>, x: mat4x4<f32>) -> f32 {
    return dot(w[0], x[0]) + dot(w[1], x[1]) + dot(w[2], x[2]) + dot(w[3], x[3]);
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32 LANE_ARGUMENTS) {
    let at = LANE_INDEX;
    let lane = at & 31u;
    let pair = flat(wg) * 4u + (at >> 5u);
    // The two rows, kept inside the matrix where there is nothing to compute.
    let first = select(pair * 2u, pair, GATED == 1u);
    let second = select(first + 1u, first + p.n_rows, GATED == 1u);
    let last = select(p.n_rows, p.n_rows * 2u, GATED == 1u) - 1u;
    let first_at = (p.first_row + min(first, last)) * ROW_BYTES;
    let second_at = (p.first_row + min(second, last)) * ROW_BYTES;

    var inverse = 1.0;
    if (NORM == 1u) {
        var sum = 0.0;
        for (var i = local; i < N_IN; i += 128u) {
            let value = x[(p.x_at + i) >> 2u][(p.x_at + i) & 3u];
            sum = fma(value, value, sum);
        }
        inverse = inverse_rms(sum_of_workgroup(sum, local), N_IN, EPS);
    }

    var values: array<f32, N_VALUES>;
    for (var v = 0u; v < N_VALUES; v++) {
        values[v] = 0.0;
    }
    for (var e = lane * 16u; e < N_IN; e += 512u) {
        let a = masked(weight16(first_at, e), e);
        let b = masked(weight16(second_at, e), e);
        for (var col = 0u; col < N_COLS; col++) {
            var y: mat4x4<f32>;
            for (var k = 0u; k < 4u; k++) {
                y[k] = normed4(x4(min(col, p.n_cols - 1u), e + 4u * k), e + 4u * k, inverse);
            }
            values[col * 2u] += dot16(a, y);
            values[col * 2u + 1u] += dot16(b, y);
        }
    }
    sum_lanes(&values, at);

    if (GATED == 1u) {
        if (lane == 0u && first < p.n_rows) {
            out[p.out_at + p.out_row + first] = swiglu(partials[at][0], partials[at][1]);
        }
    } else if (lane < N_VALUES) {
        let col = lane >> 1u;
        let row = first + (lane & 1u);
        if (col < p.n_cols && row < p.n_rows) {
            var value = partials[at - lane][lane];
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
