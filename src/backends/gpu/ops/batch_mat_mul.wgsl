// Products of two values: an invocation computes one element.
//   a [n_in, n_out, batch], b [n_in, n_rows, batch], out [n_out, n_rows, batch]
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let i = flat(wg) * 256u + local;
    if (i >= p.n_all) {
        return;
    }
    let column = i % p.n_out;
    let row = i / p.n_out;
    let a_first = (column + (row / p.n_rows) * p.n_out) * p.n_in;
    let b_first = row * p.n_in;
    var sum = 0.0;
    for (var k = 0u; k < p.n_in; k++) {
        sum = fma(a_load(a_first + k), b_load(b_first + k), sum);
    }
    out[p.out_at + i] = sum;
}
