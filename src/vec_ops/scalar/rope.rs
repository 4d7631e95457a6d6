//! Rotation of the pairs of one head.

/// Rotates the pairs `(i, i + n / 2)` of `x` `[n]` by the angles whose cosines and sines are given, `[n / 2]`
/// each.
pub(in crate::vec_ops) fn rope_halves(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (low, high) = x.split_at_mut(cos.len());
    for (((a, b), c), s) in low.iter_mut().zip(high).zip(cos).zip(sin) {
        (*a, *b) = (*a * c - *b * s, *a * s + *b * c);
    }
}

/// Rotates the pairs `(2i, 2i + 1)` of `x` `[n]`. Cosines and sines are `[n]`: each angle's stands twice.
pub(in crate::vec_ops) fn rope_neighbours(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    for ((pair, c), s) in x.chunks_exact_mut(2).zip(cos.chunks_exact(2)).zip(sin.chunks_exact(2)) {
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * c[0] - b * s[0];
        pair[1] = b * c[1] + a * s[1];
    }
}
