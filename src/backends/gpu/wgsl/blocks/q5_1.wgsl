fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = (row_at >> 2u) + (e >> 5u) * 6u;
    let dm = unpack2x16float(weights[at]);
    let high = weights[at + 1u] >> (e & 16u);
    let shift = (e & 16u) >> 2u;
    var y: mat4x4<f32>;
    for (var i = 0u; i < 4u; i++) {
        let low = (weights[at + 2u + i] >> shift) & 0x0f0f0f0fu;
        y[i] = unsigned4(low | (spread4(high >> (i * 4u)) << 4u)) * dm.x + dm.y;
    }
    return y;
}
