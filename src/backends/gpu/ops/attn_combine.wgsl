// Combines the partial results of attention over stretches of positions: an invocation computes one element.
//   parts [HEAD_DIM_V + 2, n_splits, n_lines], out [HEAD_DIM_V, n_lines]
const UNSEEN = -3.0e38;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let i = flat(wg) * 64u + local;
    let line = i / HEAD_DIM_V;
    if (line >= p.n_lines) {
        return;
    }
    let first = line * p.n_splits * (HEAD_DIM_V + 2u);
    var top = UNSEEN;
    for (var split = 0u; split < p.n_splits; split++) {
        top = max(top, parts_load(first + split * (HEAD_DIM_V + 2u) + HEAD_DIM_V));
    }
    var total = 0.0;
    var sum = 0.0;
    for (var split = 0u; split < p.n_splits; split++) {
        let at = first + split * (HEAD_DIM_V + 2u);
        let greatest = parts_load(at + HEAD_DIM_V);
        // A stretch without anything to see has no values.
        if (greatest != UNSEEN) {
            let factor = exp(greatest - top);
            total = fma(factor, parts_load(at + HEAD_DIM_V + 1u), total);
            sum = fma(factor, parts_load(at + i % HEAD_DIM_V), sum);
        }
    }
    out[p.out_at + i] = select(sum / total, 0.0, total == 0.0);
}
