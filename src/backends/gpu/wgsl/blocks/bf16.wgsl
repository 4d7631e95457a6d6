fn four(at: u32) -> vec4<f32> {
    let a = word_at(at);
    let b = word_at(at + 4u);
    return bitcast<vec4<f32>>(vec4<u32>(a << 16u, a & 0xffff0000u, b << 16u, b & 0xffff0000u));
}

fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + e * 2u;
    return mat4x4<f32>(four(at), four(at + 8u), four(at + 16u), four(at + 24u));
}
