// Two f32 as halves in a word, rounded to the nearest, ties to even, whatever the device does on its own.
fn half_bits(value: f32) -> u32 {
    let bits = bitcast<u32>(value);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    if (magnitude >= 0x477ff000u) {
        return sign | 0x7c00u;
    }
    if (magnitude < 0x38800000u) {
        // Below the smallest normal half: the sum aligns the units of the last place.
        let subnormal = bitcast<u32>(bitcast<f32>(magnitude) + 0.5) - 0x3f000000u;
        return sign | subnormal;
    }
    let odd = (magnitude >> 13u) & 1u;
    return sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13u);
}

fn halves(a: f32, b: f32) -> u32 {
    return half_bits(a) | (half_bits(b) << 16u);
}
