// Rows of a value, one element per invocation; what is no row becomes NaN.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let i = flat(wg) * 256u + local;
    let line = i / p.row_elems;
    if (line >= p.n_lines) {
        return;
    }
    let id = bitcast<u32>(ids[p.ids_at + line]);
    var value = bitcast<f32>(p.nan);
    if (id < p.n_rows) {
        value = x_load(id * p.row_elems + i % p.row_elems);
    }
    out[p.out_at + i] = value;
}
