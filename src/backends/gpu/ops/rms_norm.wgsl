// RMS norm of rows: one row of ROW_ELEMS per workgroup.
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row = flat(wg);
    if (row >= p.n_rows) {
        return;
    }
    let first = row * ROW_ELEMS;
    var sum = 0.0;
    for (var i = local; i < ROW_ELEMS; i += 128u) {
        let value = x_load(first + i);
        sum = fma(value, value, sum);
    }
    let inverse = inverse_rms(sum_of_workgroup(sum, local), ROW_ELEMS, EPS);
    for (var i = local; i < ROW_ELEMS; i += 128u) {
        out[p.out_at + first + i] = (x_load(first + i) * inverse) * norm_load(i);
    }
}
