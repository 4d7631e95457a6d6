// Elements of the regions from `i` on, one or four; four start at a multiple of 4. The scales of all blocks
// follow the bytes of all cells.
fn key_scale(i: u32) -> f32 {
    return bitcast<f32>(keys[p.n_pages * (8u * N_HEAD_KV * HEAD_DIM) + i / 32u]);
}

fn key_at(i: u32) -> f32 {
    return key4_at(i & ~3u)[i & 3u];
}

fn key4_at(i: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(keys[i >> 2u])) * key_scale(i);
}

fn value_scale(i: u32) -> f32 {
    return bitcast<f32>(values[p.n_pages * (8u * N_HEAD_KV * HEAD_DIM_V) + i / 32u]);
}

fn value_at(i: u32) -> f32 {
    return value4_at(i & ~3u)[i & 3u];
}

fn value4_at(i: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(values[i >> 2u])) * value_scale(i);
}
