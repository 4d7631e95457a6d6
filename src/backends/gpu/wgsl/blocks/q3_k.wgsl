fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 8u) * 110u;
    let i = e & 255u;
    let group = i >> 4u;
    let low = (byte_at(at + 96u + (group & 7u)) >> ((group >> 3u) << 2u)) & 15u;
    let high = (byte_at(at + 104u + (group & 3u)) >> ((group >> 2u) << 1u)) & 3u;
    let scale = half_at(at + 108u) * (f32(low | (high << 4u)) - 32.0);
    let first = at + 32u + two_bits_at(i);
    var y: mat4x4<f32>;
    for (var k = 0u; k < 4u; k++) {
        let third = (word_at(at + (i & 31u) + k * 4u) >> (i >> 5u)) & 0x01010101u;
        let q = two_bits4(word_at(first + k * 4u), i) | (third << 2u);
        y[k] = scale * (unsigned4(q) - 4.0);
    }
    return y;
}
