//! Sums and products, element by element, and dot products.

/// `acc[i] += b[i]`
pub(in crate::vec_ops) fn add(acc: &mut [f32], b: &[f32]) {
    for (a, b) in acc.iter_mut().zip(b) {
        *a += b;
    }
}

/// `acc[i] *= b[i]`
pub(in crate::vec_ops) fn mul(acc: &mut [f32], b: &[f32]) {
    for (a, b) in acc.iter_mut().zip(b) {
        *a *= b;
    }
}

/// `x[i] *= factor`
pub(in crate::vec_ops) fn scale(x: &mut [f32], factor: f32) {
    for x in x {
        *x *= factor;
    }
}

/// `Σ a[i] * b[i]`, in 8 partial sums.
pub(in crate::vec_ops) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    add_lanes(sums)
}

/// The sum of 8 lanes, halving the number of lanes at each step.
pub(in crate::vec_ops) fn add_lanes(v: [f32; 8]) -> f32 {
    let [a, b, c, d] = [v[0] + v[4], v[1] + v[5], v[2] + v[6], v[3] + v[7]];
    (a + c) + (b + d)
}
