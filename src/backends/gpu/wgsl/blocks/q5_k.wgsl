fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 8u) * 176u;
    let i = e & 255u;
    let group = i >> 5u;
    let scales = unpack2x16float(weights[at >> 2u]) * scale_and_minimum(at + 4u, group);
    let high = ((at + 16u) >> 2u) + ((i & 16u) >> 2u);
    let first = ((at + 48u) >> 2u) + (i >> 6u) * 8u + ((i & 16u) >> 2u);
    let shift = (i & 32u) >> 3u;
    var y: mat4x4<f32>;
    for (var k = 0u; k < 4u; k++) {
        let fifth = (weights[high + k] >> group) & 0x01010101u;
        let low = (weights[first + k] >> shift) & 0x0f0f0f0fu;
        y[k] = scales.x * unsigned4(low | (fifth << 4u)) - scales.y;
    }
    return y;
}
