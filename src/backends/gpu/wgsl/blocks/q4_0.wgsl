fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 5u) * 18u;
    let d = half_at(at);
    let shift = (e & 16u) >> 2u;
    var y: mat4x4<f32>;
    for (var i = 0u; i < 4u; i++) {
        y[i] = (nibbles4(word_at(at + 2u + i * 4u) >> shift) - 8.0) * d;
    }
    return y;
}
