// What follows a product of Q, K and V of one token: biases or per-head norms, rotation, and the way of K and
// V into the cell. A workgroup takes one head of Q or K, or 128 units of V.
//   qkv [N_Q + K_ELEMS + V_ELEMS], out [N_Q]
// `first_q`, `first_k`, `first_v` are the biases, or the first two the weights of the norms.

var<private> inverse: f32;

// Element `i` of qkv with its bias.
fn biased(i: u32) -> f32 {
    let value = qkv_load(i);
    if (BIAS == 0u) {
        return value;
    }
    if (i < N_Q) {
        return value + first_q_load(i);
    }
    if (i < N_Q + K_ELEMS) {
        return value + first_k_load(i - N_Q);
    }
    return value + first_v_load(i - N_Q - K_ELEMS);
}

// Element `i` of the head at `head_at` after its norm.
fn normed(head_at: u32, i: u32) -> f32 {
    let value = biased(head_at + i);
    if (NORM == 0u) {
        return value;
    }
    if (head_at < N_Q) {
        return (value * inverse) * first_q_load(i);
    }
    return (value * inverse) * first_k_load(i);
}

// Element `i` of the head at `head_at` after its rotation.
fn turned(head_at: u32, i: u32) -> f32 {
    if (i >= 2u * N_PAIRS) {
        return normed(head_at, i);
    }
    let pair = select(i % N_PAIRS, i >> 1u, INTERLEAVED == 1u);
    let at = pair_elements(pair);
    let position = bitcast<u32>(positions[p.positions_at]);
    let y = rotated(normed(head_at, at.x), normed(head_at, at.y), rotation_by(position, pair));
    return select(y.y, y.x, i == at.x);
}

// Element `i` of the row of keys.
fn key_element(i: u32) -> f32 {
    let in_head = i % HEAD_DIM;
    return turned(N_Q + i - in_head, in_head);
}

// Element `i` of the row of values.
fn value_element(i: u32) -> f32 {
    return biased(N_Q + K_ELEMS + i);
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let n_head = N_Q / HEAD_DIM;
    let n_head_kv = K_ELEMS / HEAD_DIM;
    let head = flat(wg);
    let cell = bitcast<u32>(cells[p.cells_at]);
    if (head >= n_head + n_head_kv) {
        let unit = (head - n_head - n_head_kv) * 128u + local;
        if (unit < V_ELEMS / UNIT && cell < p.n_cells) {
            put_value(cell, unit);
        }
        return;
    }
    let head_at = head * HEAD_DIM;
    if (NORM == 1u) {
        var sum = 0.0;
        for (var i = local; i < HEAD_DIM; i += 128u) {
            let value = biased(head_at + i);
            sum = fma(value, value, sum);
        }
        inverse = inverse_rms(sum_of_workgroup(sum, local), HEAD_DIM, EPS);
    }
    if (head < n_head) {
        for (var i = local; i < HEAD_DIM; i += 128u) {
            out[p.out_at + head_at + i] = turned(head_at, i);
        }
        return;
    }
    for (var i = local; i < HEAD_DIM / UNIT; i += 128u) {
        if (cell < p.n_cells) {
            put_key(cell, (head - n_head) * (HEAD_DIM / UNIT) + i);
        }
    }
}
