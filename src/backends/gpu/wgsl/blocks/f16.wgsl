fn four(at: u32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(word_at(at)), unpack2x16float(word_at(at + 4u)));
}

fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + e * 2u;
    return mat4x4<f32>(four(at), four(at + 8u), four(at + 16u), four(at + 24u));
}
