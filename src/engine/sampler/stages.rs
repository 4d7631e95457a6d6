//! The stages. Each keeps at least one candidate.

use super::candidates::Candidates;
use super::{SamplerOptions, Stage};

pub(super) fn apply(stage: Stage, options: &SamplerOptions, candidates: &mut Candidates) {
    match stage {
        Stage::TopK => top_k(candidates, options.top_k),
        Stage::Typical => typical(candidates, options.typical_p),
        Stage::TopP => top_p(candidates, options.top_p),
        Stage::MinP => min_p(candidates, options.min_p),
        Stage::Temperature => candidates.divide(options.temperature),
    }
}

fn top_k(candidates: &mut Candidates, k: i64) {
    if let Ok(k) = usize::try_from(k)
        && k > 0
    {
        candidates.keep_best(k);
    }
}

fn top_p(candidates: &mut Candidates, p: f32) {
    if p >= 1.0 {
        return;
    }
    let (max, total) = candidates.mass();
    let goal = f64::from(p) * total;
    let (mut n_kept, mut sum, mut n_sorted) = (0, 0.0, 64);
    while n_kept < candidates.len() {
        for candidate in &candidates.sorted(n_sorted)[n_kept..] {
            n_kept += 1;
            sum += (f64::from(candidate.logit) - max).exp();
            if sum >= goal {
                return candidates.keep_best(n_kept);
            }
        }
        n_sorted *= 8;
    }
}

fn min_p(candidates: &mut Candidates, p: f32) {
    if p <= 0.0 {
        return;
    }
    let threshold = f64::from(candidates.sorted(1)[0].logit) + f64::from(p).ln();
    let n_kept = candidates.as_slice().iter().filter(|c| f64::from(c.logit) >= threshold).count();
    candidates.keep_best(n_kept);
}

/// Keeps the tokens whose surprise is closest to the entropy, up to probability `p`.
fn typical(candidates: &mut Candidates, p: f32) {
    if p >= 1.0 {
        return;
    }
    let (max, total) = candidates.mass();
    let n = candidates.len();
    let log_probs: Vec<f64> =
        candidates.sorted(n).iter().map(|c| f64::from(c.logit) - max - total.ln()).collect();
    let entropy: f64 = log_probs.iter().map(|log_prob| -log_prob.exp() * log_prob).sum();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| (log_probs[a] + entropy).abs().total_cmp(&(log_probs[b] + entropy).abs()));
    let mut sum = 0.0;
    let n_kept = order.iter().position(|&index| {
        sum += log_probs[index].exp();
        sum >= f64::from(p)
    });
    order.truncate(n_kept.map_or(n, |index| index + 1));
    candidates.keep(&order);
}
