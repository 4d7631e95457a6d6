fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 5u) * 22u;
    let d = half_at(at);
    let high = word_at(at + 2u) >> (e & 16u);
    let shift = (e & 16u) >> 2u;
    var y: mat4x4<f32>;
    for (var i = 0u; i < 4u; i++) {
        let low = (word_at(at + 6u + i * 4u) >> shift) & 0x0f0f0f0fu;
        y[i] = (unsigned4(low | (spread4(high >> (i * 4u)) << 4u)) - 16.0) * d;
    }
    return y;
}
