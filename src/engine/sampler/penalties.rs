//! Biases and penalties: what changes logits before candidates are narrowed.

use std::collections::{HashMap, VecDeque};

use super::SamplerOptions;
use super::candidates::Candidates;

/// The recent tokens and how often each of them occurs.
#[derive(Clone, Debug)]
pub(super) struct History {
    capacity: usize,
    tokens: VecDeque<u32>,
    counts: HashMap<u32, u32>,
}

impl History {
    /// Keeps the latest `last_n` tokens; all of them if negative.
    pub(super) fn new(last_n: i64) -> History {
        let capacity = usize::try_from(last_n).unwrap_or(usize::MAX);
        History { capacity, tokens: VecDeque::new(), counts: HashMap::new() }
    }

    pub(super) fn push(&mut self, id: u32) {
        if self.capacity == 0 {
            return;
        }
        if self.tokens.len() == self.capacity
            && let Some(oldest) = self.tokens.pop_front()
            && let Some(count) = self.counts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
        self.tokens.push_back(id);
        *self.counts.entry(id).or_default() += 1;
    }
}

/// Applies logit biases and the three penalties.
pub(super) fn apply(candidates: &mut Candidates, options: &SamplerOptions, history: &History) {
    for (&id, &count) in &history.counts {
        let Some(candidate) = candidates.of_token(id) else { continue };
        if candidate.logit > 0.0 {
            candidate.logit /= options.repeat_penalty;
        } else {
            candidate.logit *= options.repeat_penalty;
        }
        candidate.logit -= count as f32 * options.frequency_penalty + options.presence_penalty;
    }
    for &(id, bias) in &options.logit_bias {
        if let Some(candidate) = candidates.of_token(id) {
            candidate.logit += bias;
        }
    }
}
