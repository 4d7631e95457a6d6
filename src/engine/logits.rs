//! Logits and what follows from them.

use super::EngineError;

/// Logits of a batch: one row of `n_vocab` values for every token that wanted them, in the batch's order.
#[derive(Clone, Copy, Debug)]
pub struct Logits<'a> {
    values: &'a [f32],
    n_vocab: usize,
}

impl<'a> Logits<'a> {
    /// `values`: `[n_vocab, n_rows] f32`.
    pub(super) fn new(values: &'a [f32], n_vocab: usize) -> Logits<'a> {
        Logits { values, n_vocab }
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.values.len() / self.n_vocab
    }

    /// Row `row`, `[n_vocab] f32`. Panics if there is no such row.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.n_vocab..(row + 1) * self.n_vocab]
    }

    /// All rows in order.
    pub fn rows(&self) -> impl Iterator<Item = &'a [f32]> {
        self.values.chunks_exact(self.n_vocab)
    }
}

/// An error that names the row if one of the values `[n_vocab, n_rows] f32` is NaN.
pub(super) fn check(values: &[f32], n_vocab: usize) -> Result<(), EngineError> {
    match values.iter().position(|value| value.is_nan()) {
        Some(at) => Err(EngineError::NanLogits { row: at / n_vocab }),
        None => Ok(()),
    }
}

/// `ln Σ exp(logit)`, in f64.
pub fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max) as f64;
    if max == f64::NEG_INFINITY {
        return max;
    }
    max + logits.iter().map(|&logit| (logit as f64 - max).exp()).sum::<f64>().ln()
}

/// The `n` most likely tokens with their natural log-probabilities, best first; equal ones by id.
pub fn top_log_probs(logits: &[f32], n: usize) -> Vec<(u32, f64)> {
    let total = log_sum_exp(logits);
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    let better = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let n = n.min(ids.len());
    if n < ids.len() {
        ids.select_nth_unstable_by(n, better);
        ids.truncate(n);
    }
    ids.sort_unstable_by(better);
    ids.into_iter().map(|id| (id, logits[id as usize] as f64 - total)).collect()
}

/// The most likely token, the lowest id among equal ones. Panics if there are no logits.
pub fn arg_max(logits: &[f32]) -> u32 {
    let best = |best: usize, at: usize| if logits[at] > logits[best] { at } else { best };
    (0..logits.len()).reduce(best).expect("a vocabulary has at least one token") as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_probabilities_are_sorted_and_sum_to_one() {
        let logits = [1.0, 3.0, f32::NEG_INFINITY, 3.0, -2.0];
        let top = top_log_probs(&logits, 9);
        assert_eq!(top.iter().map(|pair| pair.0).collect::<Vec<_>>(), [1, 3, 0, 4, 2]);
        let total: f64 = top.iter().map(|pair| pair.1.exp()).sum();
        assert!((total - 1.0).abs() < 1e-12);
        assert_eq!(top_log_probs(&logits, 2), top[..2]);
        assert_eq!(arg_max(&logits), 1);
    }

    #[test]
    fn huge_logits_do_not_overflow() {
        assert!((log_sum_exp(&[3e38, 3e38]) - 3e38f32 as f64).abs() < 1e30);
        assert!((log_sum_exp(&[1000.0, 1000.0]) - (1000.0 + 2f64.ln())).abs() < 1e-9);
    }

    #[test]
    fn nan_is_an_error_that_names_the_row() {
        let error = check(&[0.0, 1.0, 2.0, f32::NAN], 2).expect_err("NaN");
        assert_eq!(error.to_string(), "model produced NaN: logits of row 1");
        assert!(check(&[0.0, f32::NEG_INFINITY], 2).is_ok());
    }
}
