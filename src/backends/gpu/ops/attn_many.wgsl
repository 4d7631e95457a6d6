// Attention of many tokens with an online softmax. A workgroup takes one head of 16 tokens (rows) and walks
// the pages of their sequences, 32 positions at a time. Rows of one sequence that follow each other are a
// run; each run walks the pages that any of its rows sees.
//   q [HEAD_DIM * N_HEAD, n_tokens], out [HEAD_DIM_V * N_HEAD, n_tokens]

const ROWS = 16u;
const COLS = (HEAD_DIM_V + 3u) / 4u;
// Invocations with the same columns of the values share the rows.
const SHARES = min(128u / COLS, ROWS);
const ROWS_EACH = (ROWS + SHARES - 1u) / SHARES;
// Vectors of four in a line of the tiles; one more between lines of keys keeps them in different banks.
const CHUNK = 8u;
const KEY_LINE = CHUNK + 1u;

var<workgroup> query_tile: array<vec4<f32>, ROWS * CHUNK>;
var<workgroup> key_tile: array<vec4<f32>, 32u * KEY_LINE>;
var<workgroup> weights: array<f32, ROWS * 32u>;
var<workgroup> scratch: array<f32, 128>;
var<workgroup> factors: array<f32, ROWS>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = flat(wg) % N_HEAD;
    let kv_head = head / GROUP;
    let first_token = flat(wg) / N_HEAD * ROWS;
    if (first_token >= p.n_tokens) {
        return;
    }
    let n_rows = min(ROWS, p.n_tokens - first_token);
    // Scores: four rows of one position.
    let position_in_page = local % 32u;
    let first_row = local / 32u * 4u;
    // Weights: four positions of one row, whose running greatest score eight invocations keep.
    let row = local / 8u;
    var top = UNSEEN;
    var weight_sum = 0.0;
    // Values: four columns of up to ROWS_EACH rows.
    let column = local % COLS * 4u;
    let share = local / COLS;
    var sums: array<vec4<f32>, ROWS_EACH>;
    for (var j = 0u; j < ROWS_EACH; j++) {
        sums[j] = vec4<f32>(0.0);
    }

    var run_start = 0u;
    while (run_start < n_rows) {
        let seq = seq_of(first_token + run_start);
        var all = seen(first_token + run_start);
        var run_end = run_start + 1u;
        while (run_end < n_rows && seq_of(first_token + run_end) == seq) {
            let sight = seen(first_token + run_end);
            all = vec2<u32>(min(all.x, sight.x), max(all.y, sight.y));
            run_end += 1u;
        }
        for (var page_index = all.x / 32u; page_index * 32u < all.y; page_index++) {
            let page = page_of(seq, page_index);
            if (page >= p.n_pages) {
                continue;
            }
            var scores = vec4<f32>(0.0);
            for (var chunk = 0u; chunk < HEAD_DIM; chunk += CHUNK * 4u) {
                let d = chunk + local % CHUNK * 4u;
                let line = local / CHUNK;
                if (d < HEAD_DIM) {
                    let token = first_token + min(line, n_rows - 1u);
                    query_tile[local] = query4(token, head, d);
                    let cell = page * 32u + line;
                    key_tile[line * KEY_LINE + local % CHUNK] = key4(cell, kv_head, d);
                    key_tile[(line + 16u) * KEY_LINE + local % CHUNK] = key4(cell + 16u, kv_head, d);
                }
                workgroupBarrier();
                let n_vectors = min(CHUNK, (HEAD_DIM - chunk + 3u) / 4u);
                for (var i = 0u; i < n_vectors; i++) {
                    let key = key_tile[position_in_page * KEY_LINE + i];
                    for (var j = 0u; j < 4u; j++) {
                        scores[j] += dot(query_tile[(first_row + j) * CHUNK + i], key);
                    }
                }
                workgroupBarrier();
            }
            let position = page_index * 32u + position_in_page;
            for (var j = 0u; j < 4u; j++) {
                var score = UNSEEN;
                if (first_row + j >= run_start && first_row + j < run_end) {
                    let sight = seen(first_token + first_row + j);
                    score = select(UNSEEN, scores[j] * SCALE, position >= sight.x && position < sight.y);
                }
                weights[(first_row + j) * 32u + position_in_page] = score;
            }
            workgroupBarrier();

            var largest = top;
            for (var i = 0u; i < 4u; i++) {
                largest = max(largest, weights[local * 4u + i]);
            }
            scratch[local] = largest;
            workgroupBarrier();
            for (var i = 0u; i < 8u; i++) {
                largest = max(largest, scratch[row * 8u + i]);
            }
            let factor = exp(top - largest);
            top = largest;
            weight_sum *= factor;
            for (var i = 0u; i < 4u; i++) {
                let score = weights[local * 4u + i];
                let weight = select(exp(score - top), 0.0, score <= UNSEEN);
                weights[local * 4u + i] = weight;
                weight_sum += weight;
            }
            if (local % 8u == 0u) {
                factors[row] = factor;
            }
            workgroupBarrier();

            if (share < SHARES) {
                for (var j = 0u; j < ROWS_EACH; j++) {
                    sums[j] *= factors[min(share + j * SHARES, ROWS - 1u)];
                }
                for (var i = 0u; i < 32u; i++) {
                    let value = value4(page * 32u + i, kv_head, column);
                    for (var j = 0u; j < ROWS_EACH; j++) {
                        let weight = weights[min(share + j * SHARES, ROWS - 1u) * 32u + i];
                        // What a row does not see may be anything.
                        if (weight != 0.0) {
                            sums[j] = fma(vec4<f32>(weight), value, sums[j]);
                        }
                    }
                }
            }
            workgroupBarrier();
        }
        run_start = run_end;
    }

    scratch[local] = weight_sum;
    workgroupBarrier();
    if (share >= SHARES) {
        return;
    }
    for (var j = 0u; j < ROWS_EACH; j++) {
        let r = share + j * SHARES;
        if (r < n_rows) {
            var total = 0.0;
            for (var i = 0u; i < 8u; i++) {
                total += scratch[r * 8u + i];
            }
            let result = select(sums[j] / total, vec4<f32>(0.0), total == 0.0);
            let at = p.out_at + ((first_token + r) * N_HEAD + head) * HEAD_DIM_V + column;
            for (var k = 0u; k < 4u; k++) {
                if (column + k < HEAD_DIM_V) {
                    out[at + k] = result[k];
                }
            }
        }
    }
}
