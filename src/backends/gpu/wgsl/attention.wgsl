// What a token sees, and where keys and values lie. Pages that no region has are seen by nobody.
const UNSEEN = -3.0e38;
const NO_PAGE = 0xffffffffu;

// The sequence of a token.
fn seq_of(token: u32) -> u32 {
    return bitcast<u32>(seq_ids[p.seq_ids_at + token]);
}

// The first position that a token sees, and the one behind the last.
fn seen(token: u32) -> vec2<u32> {
    if (seq_of(token) >= p.n_seq) {
        return vec2<u32>(0u);
    }
    let end = min(bitcast<u32>(positions[p.positions_at + token]), p.n_pages_max * 32u - 1u) + 1u;
    return vec2<u32>(end - min(end, WINDOW), end);
}

// The page with positions 32 * index .. 32 * index + 32 of a sequence that there is.
fn page_of(seq: u32, index: u32) -> u32 {
    if (index >= p.n_pages_max) {
        return NO_PAGE;
    }
    return bitcast<u32>(kv_pages[p.kv_pages_at + seq * p.n_pages_max + index]);
}

// Elements d .. d + 4 of a query, zero beyond the head.
fn query4(token: u32, head: u32, d: u32) -> vec4<f32> {
    let at = (token * N_HEAD + head) * HEAD_DIM + d;
    var y = vec4<f32>(0.0);
    for (var j = 0u; j < 4u; j++) {
        if (d + j < HEAD_DIM) {
            y[j] = q_load(at + j);
        }
    }
    return y;
}

// Elements d .. d + 4 of a key, zero beyond the head; d is a multiple of 4.
fn key4(cell: u32, kv_head: u32, d: u32) -> vec4<f32> {
    let at = (cell * N_HEAD_KV + kv_head) * HEAD_DIM + d;
    if (HEAD_DIM % 4u == 0u) {
        return key4_at(at);
    }
    var y = vec4<f32>(0.0);
    for (var j = 0u; j < 4u; j++) {
        if (d + j < HEAD_DIM) {
            y[j] = key_at(at + j);
        }
    }
    return y;
}

// Elements d .. d + 4 of a value, zero beyond the head; d is a multiple of 4.
fn value4(cell: u32, kv_head: u32, d: u32) -> vec4<f32> {
    let at = (cell * N_HEAD_KV + kv_head) * HEAD_DIM_V + d;
    if (HEAD_DIM_V % 4u == 0u) {
        return value4_at(at);
    }
    var y = vec4<f32>(0.0);
    for (var j = 0u; j < 4u; j++) {
        if (d + j < HEAD_DIM_V) {
            y[j] = value_at(at + j);
        }
    }
    return y;
}
