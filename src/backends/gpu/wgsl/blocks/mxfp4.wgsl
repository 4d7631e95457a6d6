// Four-bit floats, doubled so that they are whole.
fn doubled(q: u32) -> f32 {
    let word = select(0x03020100u, 0x0c080604u, (q & 4u) != 0u);
    let magnitude = f32((word >> ((q & 3u) << 3u)) & 15u);
    return select(magnitude, -magnitude, (q & 8u) != 0u);
}

fn doubled4(nibbles: u32) -> vec4<f32> {
    let q = unpack4xU8(nibbles & 0x0f0f0f0fu);
    return vec4<f32>(doubled(q.x), doubled(q.y), doubled(q.z), doubled(q.w));
}

fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + (e >> 5u) * 17u;
    let exponent = byte_at(at);
    let bits = select((exponent - 1u) << 23u, 0x00200000u << (exponent & 1u), exponent < 2u);
    let d = bitcast<f32>(bits);
    let shift = (e & 16u) >> 2u;
    var y: mat4x4<f32>;
    for (var i = 0u; i < 4u; i++) {
        y[i] = d * doubled4(unaligned_word_at(at + 1u + i * 4u) >> shift);
    }
    return y;
}
