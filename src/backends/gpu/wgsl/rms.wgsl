// RMS norm of one row by a workgroup of 128. Whatever kernel normalises a row uses this and `sum_of_workgroup`, so
// that all of them give the same bits.
fn inverse_rms(sum_of_squares: f32, n: u32, eps: f32) -> f32 {
    return 1.0 / sqrt(sum_of_squares / f32(n) + eps);
}
