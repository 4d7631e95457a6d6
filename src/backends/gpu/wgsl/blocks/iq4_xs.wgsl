fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = (row_at >> 2u) + (e >> 8u) * 34u;
    let i = e & 255u;
    let group = i >> 5u;
    let head = weights[at];
    let low = (weights[at + 1u] >> (group << 2u)) & 15u;
    let high = (head >> (16u + (group << 1u))) & 3u;
    let scale = unpack2x16float(head).x * (f32(low | (high << 4u)) - 32.0);
    let shift = (i & 16u) >> 2u;
    var y: mat4x4<f32>;
    for (var k = 0u; k < 4u; k++) {
        y[k] = scale * levels4(weights[at + 2u + (group << 2u) + k] >> shift);
    }
    return y;
}
