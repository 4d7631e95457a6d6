// A sum over a workgroup of 128, in an order that is always the same.
var<workgroup> terms: array<f32, 128>;

// The sum of what the 128 invocations give, in each of them.
fn sum_of_workgroup(value: f32, local: u32) -> f32 {
    terms[local] = value;
    workgroupBarrier();
    for (var step = 64u; step > 0u; step >>= 1u) {
        if (local < step) {
            terms[local] += terms[local + step];
        }
        workgroupBarrier();
    }
    let sum = terms[0];
    workgroupBarrier();
    return sum;
}
