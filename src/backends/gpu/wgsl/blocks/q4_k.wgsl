fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 8u) * 144u;
    let i = e & 255u;
    let scales = unpack2x16float(weights[at >> 2u]) * scale_and_minimum(at + 4u, i >> 5u);
    let first = ((at + 16u) >> 2u) + (i >> 6u) * 8u + ((i & 16u) >> 2u);
    let shift = (i & 32u) >> 3u;
    var y: mat4x4<f32>;
    for (var k = 0u; k < 4u; k++) {
        y[k] = scales.x * nibbles4(weights[first + k] >> shift) - scales.y;
    }
    return y;
}
