// Reading blocks of bytes out of words. Offsets are bytes from the start of `weights`.

fn byte_at(at: u32) -> u32 {
    return (weights[at >> 2u] >> ((at & 3u) << 3u)) & 0xffu;
}

fn signed_byte_at(at: u32) -> f32 {
    return f32(extractBits(bitcast<i32>(byte_at(at)), 0u, 8u));
}

// The half at an even offset.
fn half_at(at: u32) -> f32 {
    return unpack2x16float(weights[at >> 2u] >> ((at & 2u) << 3u)).x;
}

// Four bytes from an even offset on.
fn word_at(at: u32) -> u32 {
    let i = at >> 2u;
    let low = weights[i];
    if ((at & 2u) == 0u) {
        return low;
    }
    return (low >> 16u) | (weights[i + 1u] << 16u);
}

// Four bytes from any offset on.
fn unaligned_word_at(at: u32) -> u32 {
    let i = at >> 2u;
    let shift = (at & 3u) << 3u;
    let low = weights[i] >> shift;
    if (shift == 0u) {
        return low;
    }
    return low | (weights[i + 1u] << (32u - shift));
}

fn unsigned4(bytes: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xU8(bytes));
}

fn signed4(bytes: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(bytes));
}

// The low nibbles of four bytes.
fn nibbles4(bytes: u32) -> vec4<f32> {
    return unsigned4(bytes & 0x0f0f0f0fu);
}

// Bit i of `bits` in the lowest bit of byte i.
fn spread4(bits: u32) -> u32 {
    return (bits & 1u) | ((bits & 2u) << 7u) | ((bits & 4u) << 14u) | ((bits & 8u) << 21u);
}
