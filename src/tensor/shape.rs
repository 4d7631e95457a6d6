//! Shapes.

use std::fmt;

/// Extents of a tensor, fastest dimension first; unused dimensions are 1. A weight is `[n_in, n_out]`,
/// activations are `[n_embd, n_tokens]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape(pub [usize; 4]);

impl Shape {
    /// `[n]`
    pub const fn d1(n: usize) -> Shape {
        Shape([n, 1, 1, 1])
    }

    /// `[n0, n1]`, `n0` fastest.
    pub const fn d2(n0: usize, n1: usize) -> Shape {
        Shape([n0, n1, 1, 1])
    }

    /// `[n0, n1, n2]`, `n0` fastest.
    pub const fn d3(n0: usize, n1: usize, n2: usize) -> Shape {
        Shape([n0, n1, n2, 1])
    }

    /// Number of elements.
    pub fn n_elems(&self) -> usize {
        self.0.iter().product()
    }

    /// Length of a row: the fastest extent.
    pub fn row_len(&self) -> usize {
        self.0[0]
    }

    /// Number of rows: the product of all extents but the fastest.
    pub fn n_rows(&self) -> usize {
        self.0[1..].iter().product()
    }
}

impl fmt::Display for Shape {
    /// Prints `[896, 512]`: trailing extents of 1 are left out, at least one extent is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_dims = self.0.iter().rposition(|&n| n != 1).map_or(1, |i| i + 1);
        f.debug_list().entries(&self.0[..n_dims]).finish()
    }
}
