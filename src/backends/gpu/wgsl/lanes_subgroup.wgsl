// Sums over groups of 32 lanes: inside subgroups by the hardware, across those of a group through workgroup
// memory.
var<workgroup> partials: array<array<f32, N_VALUES>, 128>;

// Adds up each of `values` over a group; `partials[32 * group]` gets the sums.
fn sum_lanes(values: ptr<function, array<f32, N_VALUES>>, at: u32) {
    for (var v = 0u; v < N_VALUES; v++) {
        let sum = subgroupAdd((*values)[v]);
        if (at % SUBGROUP == 0u) {
            partials[at][v] = sum;
        }
    }
    workgroupBarrier();
    if ((at & 31u) == 0u) {
        for (var other = at + SUBGROUP; other < at + 32u; other += SUBGROUP) {
            for (var v = 0u; v < N_VALUES; v++) {
                partials[at][v] += partials[other][v];
            }
        }
    }
    workgroupBarrier();
}
