// RMS norm of one row by a workgroup of 128. Whatever kernel normalises a row uses these functions, so that
// all of them give the same bits.
var<workgroup> squares: array<f32, 128>;

// The sum of what the 128 invocations give, in each of them.
fn sum_of_workgroup(value: f32, local: u32) -> f32 {
    squares[local] = value;
    workgroupBarrier();
    for (var step = 64u; step > 0u; step >>= 1u) {
        if (local < step) {
            squares[local] += squares[local + step];
        }
        workgroupBarrier();
    }
    let sum = squares[0];
    workgroupBarrier();
    return sum;
}

fn inverse_rms(sum_of_squares: f32, n: u32, eps: f32) -> f32 {
    return 1.0 / sqrt(sum_of_squares / f32(n) + eps);
}
