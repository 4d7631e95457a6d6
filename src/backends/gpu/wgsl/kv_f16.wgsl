// Elements of the regions from `i` on, one or four; four start at a multiple of 4.
fn key_at(i: u32) -> f32 {
    return unpack2x16float(keys[i >> 1u] >> (16u * (i & 1u))).x;
}

fn key4_at(i: u32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(keys[i >> 1u]), unpack2x16float(keys[(i >> 1u) + 1u]));
}

fn value_at(i: u32) -> f32 {
    return unpack2x16float(values[i >> 1u] >> (16u * (i & 1u))).x;
}

fn value4_at(i: u32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(values[i >> 1u]), unpack2x16float(values[(i >> 1u) + 1u]));
}
