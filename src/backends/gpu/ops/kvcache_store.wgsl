// Rows of new keys or values into the cells that `cells` names. An invocation writes one word of the region,
// or, for Q8_0, one block of 32.
//   x [ROW_ELEMS, n_tokens], cells [n_tokens]
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let per_row = ROW_ELEMS / STORED_AT_ONCE;
    let i = flat(wg) * 64u + local;
    let token = i / per_row;
    if (token >= p.n_tokens) {
        return;
    }
    let cell = bitcast<u32>(cells[p.cells_at + token]);
    if (cell < p.n_cells) {
        store(cell, i % per_row, token * ROW_ELEMS + (i % per_row) * STORED_AT_ONCE);
    }
}
