// One element per invocation, by the function `combine`.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let i = flat(wg) * 256u + local;
    if (i < p.n) {
        out[p.out_at + i] = combine(a_load(i), b_load(i));
    }
}
