// The six-bit scale and minimum of group `group` of the twelve bytes from `at` on.
fn scale_and_minimum(at: u32, group: u32) -> vec2<f32> {
    if (group < 4u) {
        return vec2<f32>(f32(byte_at(at + group) & 63u), f32(byte_at(at + group + 4u) & 63u));
    }
    let low = byte_at(at + group + 4u);
    let scale = (low & 15u) | ((byte_at(at + group - 4u) >> 6u) << 4u);
    let minimum = (low >> 4u) | ((byte_at(at + group) >> 6u) << 4u);
    return vec2<f32>(f32(scale), f32(minimum));
}
