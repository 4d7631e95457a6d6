fn four(at: u32) -> vec4<f32> {
    let i = at >> 2u;
    return bitcast<vec4<f32>>(vec4<u32>(weights[i], weights[i + 1u], weights[i + 2u], weights[i + 3u]));
}

fn weight16(row_at: u32, e: u32) -> mat4x4<f32> {
    let at = row_at + e * 4u;
    return mat4x4<f32>(four(at), four(at + 16u), four(at + 32u), four(at + 48u));
}
