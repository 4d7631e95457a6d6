fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 5u) * 20u;
    let dm = unpack2x16float(weights[at >> 2u]);
    let shift = (e & 16u) >> 2u;
    var y: mat4x4<f32>;
    for (var i = 0u; i < 4u; i++) {
        y[i] = nibbles4(weights[(at >> 2u) + 1u + i] >> shift) * dm.x + dm.y;
    }
    return y;
}
