// Attention of few tokens. A workgroup takes a token, up to HEADS heads of one KV head, and a stretch of
// `span` positions, 128 at a time. If there is one stretch, it writes the result; otherwise it writes, for
// each head, the weighted values before they are divided by the sum of the weights, the greatest score and
// the sum.
//   q [HEAD_DIM * N_HEAD, n_tokens]
//   out [HEAD_DIM_V * N_HEAD, n_tokens] or [HEAD_DIM_V + 2, n_splits, N_HEAD, n_tokens]

const CHUNKS = (GROUP + HEADS - 1u) / HEADS;
const KEY_COLS = (HEAD_DIM + 3u) / 4u;
const COLS = (HEAD_DIM_V + 3u) / 4u;
// Positions whose values are added up side by side.
const PARTS = 128u / COLS;

var<workgroup> queries: array<vec4<f32>, HEADS * KEY_COLS>;
var<workgroup> weights: array<f32, HEADS * 128u>;
var<workgroup> factors: array<f32, HEADS>;
var<workgroup> pages: array<u32, 4>;
var<workgroup> scratch: array<f32, 128>;
var<workgroup> columns: array<vec4<f32>, 128>;

// The greatest value of the LANES invocations that share a head.
fn greatest(value: f32, local: u32) -> f32 {
    scratch[local] = value;
    workgroupBarrier();
    for (var step = LANES / 2u; step > 0u; step >>= 1u) {
        if (local % LANES < step) {
            scratch[local] = max(scratch[local], scratch[local + step]);
        }
        workgroupBarrier();
    }
    return scratch[local / LANES * LANES];
}

// The sum over the LANES invocations that share a head, left in `scratch[LANES * head]`.
fn add_up(value: f32, local: u32) {
    scratch[local] = value;
    workgroupBarrier();
    for (var step = LANES / 2u; step > 0u; step >>= 1u) {
        if (local % LANES < step) {
            scratch[local] += scratch[local + step];
        }
        workgroupBarrier();
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let split = flat(wg) % p.n_splits;
    let item = flat(wg) / p.n_splits;
    let token = item / (CHUNKS * N_HEAD_KV);
    if (token >= p.n_tokens) {
        return;
    }
    let kv_head = item / CHUNKS % N_HEAD_KV;
    let first_head = item % CHUNKS * HEADS;
    let n_heads = min(HEADS, GROUP - first_head);
    // Line of the first head in the result or among the partial results.
    let line = (token * N_HEAD + kv_head * GROUP + first_head) * p.n_splits + split;
    // The head of this invocation's weights.
    let head = local / LANES;
    let lane = local % LANES;

    let sight = seen(token);
    let begin = max(sight.x, split * p.span);
    let end = min(sight.y, (split + 1u) * p.span);
    if (begin >= end && p.n_splits > 1u) {
        if (local < n_heads) {
            let at = p.out_at + (line + local * p.n_splits) * (HEAD_DIM_V + 2u) + HEAD_DIM_V;
            out[at] = UNSEEN;
            out[at + 1u] = 0.0;
        }
        return;
    }

    for (var i = local; i < HEADS * KEY_COLS; i += 128u) {
        let query = kv_head * GROUP + first_head + min(i / KEY_COLS, n_heads - 1u);
        queries[i] = query4(token, query, i % KEY_COLS * 4u);
    }
    var sums: array<vec4<f32>, HEADS>;
    for (var h = 0u; h < HEADS; h++) {
        sums[h] = vec4<f32>(0.0);
    }
    var top = UNSEEN;
    var weight_sum = 0.0;
    for (var start = begin / 128u * 128u; start < end; start += 128u) {
        if (local < 4u) {
            pages[local] = page_of(seq_of(token), start / 32u + local);
        }
        workgroupBarrier();

        let position = start + local;
        let page = pages[local / 32u];
        var scores: array<f32, HEADS>;
        for (var h = 0u; h < HEADS; h++) {
            scores[h] = UNSEEN;
        }
        if (position >= begin && position < end && page < p.n_pages) {
            for (var h = 0u; h < HEADS; h++) {
                scores[h] = 0.0;
            }
            for (var i = 0u; i < KEY_COLS; i++) {
                let key = key4(page * 32u + position % 32u, kv_head, i * 4u);
                for (var h = 0u; h < HEADS; h++) {
                    scores[h] += dot(queries[h * KEY_COLS + i], key);
                }
            }
            for (var h = 0u; h < HEADS; h++) {
                scores[h] *= SCALE;
            }
        }
        for (var h = 0u; h < HEADS; h++) {
            weights[h * 128u + local] = scores[h];
        }
        workgroupBarrier();

        var largest = top;
        for (var i = lane; head < HEADS && i < 128u; i += LANES) {
            largest = max(largest, weights[head * 128u + i]);
        }
        largest = greatest(largest, local);
        let factor = exp(top - largest);
        top = largest;
        weight_sum *= factor;
        for (var i = lane; head < HEADS && i < 128u; i += LANES) {
            let score = weights[head * 128u + i];
            let weight = select(exp(score - top), 0.0, score <= UNSEEN);
            weights[head * 128u + i] = weight;
            weight_sum += weight;
        }
        if (head < HEADS && lane == 0u) {
            factors[head] = factor;
        }
        workgroupBarrier();

        for (var h = 0u; h < HEADS; h++) {
            sums[h] *= factors[h];
        }
        for (var i = local / COLS; local < PARTS * COLS && i < 128u; i += PARTS) {
            let page = pages[i / 32u];
            if (start + i >= begin && start + i < end && page < p.n_pages) {
                let value = value4(page * 32u + i % 32u, kv_head, local % COLS * 4u);
                for (var h = 0u; h < HEADS; h++) {
                    sums[h] = fma(vec4<f32>(weights[h * 128u + i]), value, sums[h]);
                }
            }
        }
        workgroupBarrier();
    }

    add_up(weight_sum, local);
    let out_line = select(HEAD_DIM_V + 2u, HEAD_DIM_V, p.n_splits == 1u);
    if (p.n_splits > 1u && head < n_heads && lane == 0u) {
        let at = p.out_at + (line + head * p.n_splits) * out_line + HEAD_DIM_V;
        out[at] = top;
        out[at + 1u] = scratch[local];
    }
    for (var h = 0u; h < HEADS; h++) {
        columns[local] = sums[h];
        workgroupBarrier();
        if (h < n_heads && local < COLS) {
            var sum = columns[local];
            for (var part = 1u; part < PARTS; part++) {
                sum += columns[local + part * COLS];
            }
            if (p.n_splits == 1u) {
                let total = scratch[h * LANES];
                sum = select(sum / total, vec4<f32>(0.0), total == 0.0);
            }
            let at = p.out_at + (line + h * p.n_splits) * out_line;
            for (var j = 0u; j < 4u; j++) {
                if (local * 4u + j < HEAD_DIM_V) {
                    out[at + local * 4u + j] = sum[j];
                }
            }
        }
        workgroupBarrier();
    }
}
