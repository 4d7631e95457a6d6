// Softmax of rows: one row per workgroup.
var<workgroup> scratch: array<f32, 128>;

fn greatest(value: f32, local: u32) -> f32 {
    scratch[local] = value;
    workgroupBarrier();
    for (var step = 64u; step > 0u; step >>= 1u) {
        if (local < step) {
            scratch[local] = max(scratch[local], scratch[local + step]);
        }
        workgroupBarrier();
    }
    let result = scratch[0];
    workgroupBarrier();
    return result;
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row = flat(wg);
    if (row >= p.n_rows) {
        return;
    }
    let first = row * p.row_elems;
    var largest = x_load(first) * SCALE;
    for (var i = local; i < p.row_elems; i += 128u) {
        largest = max(largest, x_load(first + i) * SCALE);
    }
    largest = greatest(largest, local);
    var sum = 0.0;
    for (var i = local; i < p.row_elems; i += 128u) {
        sum += exp(x_load(first + i) * SCALE - largest);
    }
    sum = sum_of_workgroup(sum, local);
    for (var i = local; i < p.row_elems; i += 128u) {
        out[p.out_at + first + i] = exp(x_load(first + i) * SCALE - largest) / sum;
    }
}
