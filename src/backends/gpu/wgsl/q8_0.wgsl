// Blocks of 32 elements as signed bytes with a scale: the largest magnitude over 127, which is rounded to a
// half where it is kept, but not where elements are divided by it.

// Bits that order magnitudes, with infinity and then NaN above all numbers.
fn magnitude(x: f32) -> u32 {
    return bitcast<u32>(x) & 0x7fffffffu;
}

// The scale of a block with this largest magnitude; 0 if all its bytes are 0.
fn block_scale(top: u32) -> f32 {
    return select(bitcast<f32>(top) / 127.0, 0.0, top >= 0x7f800000u);
}

// Bits of the scale as it is kept: NaN for a block that is not finite.
fn kept_scale(top: u32) -> u32 {
    if (top >= 0x7f800000u) {
        return 0x7fc00000u;
    }
    return bitcast<u32>(unpack2x16float(half_bits(block_scale(top))).x);
}

// The nearest of the bytes, ties away from zero.
fn quant(x: f32, scale: f32) -> u32 {
    if (scale == 0.0) {
        return 0u;
    }
    let y = abs(x / scale);
    let whole = trunc(y);
    let nearest = i32(min(whole + select(0.0, 1.0, y - whole >= 0.5), 127.0));
    return bitcast<u32>(select(nearest, -nearest, x < 0.0)) & 0xffu;
}

// Four elements in a word.
fn quants4(x: vec4<f32>, scale: f32) -> u32 {
    return quant(x[0], scale)
        | (quant(x[1], scale) << 8u)
        | (quant(x[2], scale) << 16u)
        | (quant(x[3], scale) << 24u);
}
