// The 16 levels, four in a word, as signed bytes.
fn level(q: u32) -> f32 {
    var word = 0xbfad9881u;
    if (q >= 12u) {
        word = 0x71594535u;
    } else if (q >= 8u) {
        word = 0x26190d01u;
    } else if (q >= 4u) {
        word = 0xf6eaddcfu;
    }
    return f32(extractBits(bitcast<i32>(word), (q & 3u) << 3u, 8u));
}

fn levels4(nibbles: u32) -> vec4<f32> {
    let q = unpack4xU8(nibbles & 0x0f0f0f0fu);
    return vec4<f32>(level(q.x), level(q.y), level(q.z), level(q.w));
}
