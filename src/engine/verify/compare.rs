//! The distance between two results.

/// The largest differences between a result and the reference's.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Difference {
    /// The largest `|got - expected|`.
    pub absolute: f32,
    /// The largest, over rows, of the row's largest `|got - expected|` divided by its largest finite
    /// `|expected|`.
    pub relative: f32,
    /// Where the relative one is found.
    pub at: Element,
}

/// An element of a result.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Element {
    /// Its place.
    pub index: usize,
    /// What the reference has.
    pub expected: f32,
    /// What was compared with it.
    pub got: f32,
}

impl Difference {
    /// Compares `got` with `expected`, both rows of `row_elems` values. NaN equals NaN, and is infinitely far
    /// from anything else.
    pub(super) fn between(expected: &[f32], got: &[f32], row_elems: usize) -> Difference {
        let mut worst = Difference::default();
        let row_elems = row_elems.max(1);
        for (row, (expected, got)) in expected.chunks(row_elems).zip(got.chunks(row_elems)).enumerate() {
            let finite = expected.iter().filter(|value| value.is_finite());
            let largest = finite.map(|value| value.abs()).fold(0.0, f32::max);
            for (column, (&expected, &got)) in expected.iter().zip(got).enumerate() {
                let absolute = distance(expected, got);
                let relative = if absolute == 0.0 { 0.0 } else { absolute / largest };
                worst.absolute = worst.absolute.max(absolute);
                if relative > worst.relative {
                    worst.relative = relative;
                    worst.at = Element { index: row * row_elems + column, expected, got };
                }
            }
        }
        worst
    }

    /// The larger ones of both.
    pub(super) fn max(self, other: Difference) -> Difference {
        let absolute = self.absolute.max(other.absolute);
        let Difference { relative, at, .. } = if other.relative > self.relative { other } else { self };
        Difference { absolute, relative, at }
    }
}

fn distance(expected: f32, got: f32) -> f32 {
    if expected == got || (expected.is_nan() && got.is_nan()) {
        return 0.0;
    }
    let distance = (expected - got).abs();
    if distance.is_nan() { f32::INFINITY } else { distance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_relative_to_the_largest_value_of_their_row() {
        let difference = Difference::between(&[1.0, -4.0, 100.0, 0.0], &[1.5, -4.0, 101.0, 0.0], 2);
        assert_eq!((difference.absolute, difference.relative), (1.0, 0.125));
        assert_eq!(difference.at, Element { index: 0, expected: 1.0, got: 1.5 });
        assert_eq!(Difference::between(&[0.0], &[0.0], 1), Difference::default());
        assert_eq!(Difference::between(&[0.0], &[1e-9], 1).relative, f32::INFINITY);
    }

    #[test]
    fn what_is_no_number_differs_from_every_number_but_not_from_itself() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for (expected, got, relative) in [
            (nan, nan, 0.0),
            (nan, 1.0, inf),
            (1.0, nan, inf),
            (inf, inf, 0.0),
            (1.0, inf, inf),
            (inf, -inf, inf),
        ] {
            let difference = Difference::between(&[expected, 2.0], &[got, 2.0], 2);
            assert_eq!(difference.relative, relative, "{expected}, {got}");
        }
        // One infinity hides no other difference of its row.
        assert_eq!(Difference::between(&[inf, 2.0], &[inf, 3.0], 2).relative, 0.5);
    }
}
