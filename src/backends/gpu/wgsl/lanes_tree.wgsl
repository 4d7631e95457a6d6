// Sums over groups of 32 lanes through workgroup memory.
var<workgroup> partials: array<array<f32, N_VALUES>, 128>;

// Adds up each of `values` over a group; `partials[32 * group]` gets the sums.
fn sum_lanes(values: ptr<function, array<f32, N_VALUES>>, at: u32) {
    partials[at] = *values;
    workgroupBarrier();
    for (var step = 16u; step > 0u; step >>= 1u) {
        if ((at & 31u) < step) {
            for (var v = 0u; v < N_VALUES; v++) {
                partials[at][v] += partials[at + step][v];
            }
        }
        workgroupBarrier();
    }
}
