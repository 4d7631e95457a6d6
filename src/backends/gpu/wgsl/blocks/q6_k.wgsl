fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 8u) * 210u;
    let i = e & 255u;
    let scale = half_at(at + 208u) * signed_byte_at(at + 192u + (i >> 4u));
    let first = at + ((i & 128u) >> 1u) + (i & 63u);
    let shift = (i & 64u) >> 4u;
    let high = at + 128u + two_bits_at(i);
    var y: mat4x4<f32>;
    for (var k = 0u; k < 4u; k++) {
        let low = (word_at(first + k * 4u) >> shift) & 0x0f0f0f0fu;
        y[k] = scale * (unsigned4(low | (two_bits4(word_at(high + k * 4u), i) << 4u)) - 32.0);
    }
    return y;
}
