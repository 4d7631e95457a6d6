// Elements of the regions from `i` on, one or four; four start at a multiple of 4.
fn key_at(i: u32) -> f32 {
    return bitcast<f32>(keys[i]);
}

fn key4_at(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(keys[i], keys[i + 1u], keys[i + 2u], keys[i + 3u]));
}

fn value_at(i: u32) -> f32 {
    return bitcast<f32>(values[i]);
}

fn value4_at(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(values[i], values[i + 1u], values[i + 2u], values[i + 3u]));
}
