fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 5u) * 34u;
    let d = half_at(at);
    let first = at + 2u + (e & 16u);
    var y: mat4x4<f32>;
    for (var i = 0u; i < 4u; i++) {
        y[i] = signed4(word_at(first + i * 4u)) * d;
    }
    return y;
}
