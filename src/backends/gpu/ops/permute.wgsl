// Dimensions in another order: an invocation copies one element of the result.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let i = flat(wg) * 256u + local;
    if (i >= p.n0 * p.n1 * p.n2 * p.n3) {
        return;
    }
    let i0 = i % p.n0;
    let i1 = (i / p.n0) % p.n1;
    let i2 = (i / (p.n0 * p.n1)) % p.n2;
    let i3 = i / (p.n0 * p.n1 * p.n2);
    out[p.out_at + i] = x_load(i0 * p.s0 + i1 * p.s1 + i2 * p.s2 + i3 * p.s3);
}
