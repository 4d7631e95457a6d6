// Rotates the pairs of each head. An invocation takes one pair, or one element of those that are not rotated.
//   x [HEAD_DIM * N_HEAD, n_tokens], positions [n_tokens], rotations [N_PAIRS, 256, 4]
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let per_head = HEAD_DIM - N_PAIRS;
    let i = flat(wg) * 256u + local;
    let head = i / per_head;
    let item = i % per_head;
    if (head >= p.n_heads) {
        return;
    }
    let first = head * HEAD_DIM;
    if (item >= N_PAIRS) {
        let rest = first + item + N_PAIRS;
        out[p.out_at + rest] = x_load(rest);
        return;
    }
    let position = bitcast<u32>(positions[p.positions_at + head / N_HEAD]);
    let at = pair_elements(item);
    let y = rotated(x_load(first + at.x), x_load(first + at.y), rotation_by(position, item));
    out[p.out_at + first + at.x] = y.x;
    out[p.out_at + first + at.y] = y.y;
}
