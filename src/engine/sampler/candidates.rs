//! The tokens that may still be drawn.

use std::cmp::Ordering;

/// A token with its logit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Candidate {
    pub(super) logit: f32,
    pub(super) id: u32,
}

impl Candidate {
    /// Larger logits first, smaller ids first among equals.
    fn order(&self, other: &Candidate) -> Ordering {
        other.logit.total_cmp(&self.logit).then(self.id.cmp(&other.id))
    }
}

/// Candidates, of which a prefix is sorted, best first. Sorting a vocabulary of 150,000 tokens costs more than
/// computing the next token of a small model, and most stages look at a few dozen candidates, so the prefix grows on
/// demand.
#[derive(Clone, Default, Debug)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
    n_sorted: usize,
}

impl Candidates {
    /// All tokens of `logits`, in id order.
    pub(super) fn fill(&mut self, logits: &[f32]) {
        self.list.clear();
        self.list.extend(logits.iter().zip(0..).map(|(&logit, id)| Candidate { logit, id }));
        self.n_sorted = 0;
    }

    /// The candidate of token `id`, while the list is in id order.
    pub(super) fn of_token(&mut self, id: u32) -> Option<&mut Candidate> {
        debug_assert_eq!(self.n_sorted, 0);
        self.list.get_mut(id as usize)
    }

    /// Removes the tokens whose logit is `-inf`.
    pub(super) fn drop_banned(&mut self) {
        self.list.retain(|candidate| candidate.logit > f32::NEG_INFINITY);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The token with the largest logit.
    pub(super) fn best(&self) -> u32 {
        self.list.iter().min_by(|a, b| a.order(b)).map_or(0, |candidate| candidate.id)
    }

    /// The best `n` candidates, best first.
    pub(super) fn sorted(&mut self, n: usize) -> &[Candidate] {
        let n = n.min(self.list.len());
        if n > self.n_sorted {
            let rest = &mut self.list[self.n_sorted..];
            let n_more = n - self.n_sorted;
            if n_more < rest.len() {
                rest.select_nth_unstable_by(n_more, Candidate::order);
            }
            rest[..n_more].sort_unstable_by(Candidate::order);
            self.n_sorted = n;
        }
        &self.list[..n]
    }

    /// Keeps the best `n` candidates, but at least one.
    pub(super) fn keep_best(&mut self, n: usize) {
        let n = n.max(1);
        if n < self.list.len() {
            self.sorted(n);
            self.list.truncate(n);
        }
    }

    /// Puts the candidates into the order of `indices` into the list and keeps only those.
    pub(super) fn keep(&mut self, indices: &[usize]) {
        self.list = indices.iter().map(|&index| self.list[index]).collect();
        self.n_sorted = 0;
    }

    /// Divides all logits.
    pub(super) fn divide(&mut self, divisor: f32) {
        for candidate in &mut self.list {
            candidate.logit /= divisor;
        }
    }

    /// All candidates, in no promised order.
    pub(super) fn as_slice(&self) -> &[Candidate] {
        &self.list
    }

    /// The largest logit, and the sum of `exp(logit - largest)` over all candidates.
    pub(super) fn mass(&mut self) -> (f64, f64) {
        let max = f64::from(self.sorted(1)[0].logit);
        (max, self.list.iter().map(|candidate| (f64::from(candidate.logit) - max).exp()).sum())
    }

    /// The token at the point `uniform` in [0, 1) of the cumulative distribution, best first.
    pub(super) fn draw(&mut self, uniform: f64) -> u32 {
        let (max, total) = self.mass();
        let mut left = uniform * total;
        let mut n = 64;
        let mut index = 0;
        loop {
            let sorted = self.sorted(n);
            for candidate in &sorted[index..] {
                left -= (f64::from(candidate.logit) - max).exp();
                if left < 0.0 {
                    return candidate.id;
                }
            }
            index = sorted.len();
            if index == self.len() {
                return self.list[index - 1].id;
            }
            n *= 8;
        }
    }
}
