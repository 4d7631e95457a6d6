//! Prompt lookup: text repeats itself, so what followed the same tokens before may follow again.

/// Fewer equal tokens than this say nothing about what follows.
const MIN_MATCH: usize = 3;
/// More equal tokens than this say nothing more.
const MAX_MATCH: usize = 16;

/// At most `n_max` tokens that followed the longest earlier occurrence of the last tokens of `tokens`, the
/// latest of equally long ones; none if there is none. If the occurrence ends less than `n_max` tokens ago,
/// its period is continued.
pub(super) fn continuation(tokens: &[u32], n_max: usize) -> Vec<u32> {
    let Some(start) = after_match(tokens) else { return Vec::new() };
    let period = tokens.len() - start;
    (0..n_max).map(|i| tokens[start + i % period]).collect()
}

/// Where the text goes on after the longest earlier occurrence of its end.
fn after_match(tokens: &[u32]) -> Option<usize> {
    let (mut longest, mut start) = (MIN_MATCH - 1, None);
    for end in (MIN_MATCH..tokens.len()).rev() {
        let pairs = tokens[..end].iter().rev().zip(tokens.iter().rev());
        let n_equal = pairs.take(MAX_MATCH).take_while(|(a, b)| a == b).count();
        if n_equal > longest {
            (longest, start) = (n_equal, Some(end));
        }
        if longest == MAX_MATCH {
            break;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::continuation;

    #[test]
    fn the_longest_match_wins_and_then_the_latest() {
        assert_eq!(continuation(&[0, 1, 2, 3, 7, 8, 1, 2, 3, 9, 0, 1, 2, 3], 2), [7, 8], "longest");
        assert_eq!(continuation(&[1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], 2), [8, 1], "latest");
    }

    #[test]
    fn a_period_goes_on_beyond_the_end() {
        assert_eq!(continuation(&[9, 4, 5, 6, 4, 5, 6], 7), [4, 5, 6, 4, 5, 6, 4]);
        assert_eq!(continuation(&[3; 5], 4), [3, 3, 3, 3]);
    }

    #[test]
    fn nothing_is_guessed_from_too_little() {
        assert!(continuation(&[], 4).is_empty());
        assert!(continuation(&[1, 2, 3, 4], 4).is_empty());
        assert!(continuation(&[1, 2, 3, 1, 2], 4).is_empty(), "two equal tokens");
    }
}
