// Cosine and sine of pair `pair` at `position`: the product of the rotations by the position's digits in base
// 256.
fn rotation_by(position: u32, pair: u32) -> vec2<f32> {
    var turn = rotations[(position & 255u) * N_PAIRS + pair];
    for (var digit = 1u; digit < 4u; digit++) {
        let value = (position >> (8u * digit)) & 255u;
        if (value != 0u) {
            let more = rotations[(digit * 256u + value) * N_PAIRS + pair];
            turn = vec2<f32>(turn.x * more.x - turn.y * more.y, turn.x * more.y + turn.y * more.x);
        }
    }
    return turn;
}

fn rotated(a: f32, b: f32, turn: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a * turn.x - b * turn.y, a * turn.y + b * turn.x);
}

// The two elements of pair `pair` of a head.
fn pair_elements(pair: u32) -> vec2<u32> {
    if (INTERLEAVED == 1u) {
        return vec2<u32>(2u * pair, 2u * pair + 1u);
    }
    return vec2<u32>(pair, pair + N_PAIRS);
}
