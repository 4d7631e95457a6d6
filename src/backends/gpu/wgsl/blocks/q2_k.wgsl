fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 8u) * 84u;
    let i = e & 255u;
    let packed = byte_at(at + (i >> 4u));
    let scales = unpack2x16float(weights[(at >> 2u) + 20u]);
    let scale = scales.x * f32(packed & 15u);
    let minimum = scales.y * f32(packed >> 4u);
    let first = (at + 16u + two_bits_at(i)) >> 2u;
    var y: mat4x4<f32>;
    for (var k = 0u; k < 4u; k++) {
        y[k] = scale * unsigned4(two_bits4(weights[first + k], i)) - minimum;
    }
    return y;
}
