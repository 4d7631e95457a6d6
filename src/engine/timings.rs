//! Times of an answer, and the rates that follow from them.

use std::time::Duration;

/// Number and time of all nodes of one op.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpTime {
    /// Nodes that ran.
    pub n: u64,
    /// Their time together.
    pub total: Duration,
}

impl OpTime {
    /// Adds a node.
    pub fn add(&mut self, time: Duration) {
        self.n += 1;
        self.total += time;
    }
}

/// How long the parts of an answer took.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Timings {
    /// Tokens of the prompt.
    pub n_prompt: usize,
    /// Tokens of the prompt whose keys and values were there already.
    pub n_cached: usize,
    /// Time to compute the others.
    pub prompt_time: Duration,
    /// Tokens chosen, without the end-of-generation token.
    pub n_generated: usize,
    /// Time from the first choice to the end.
    pub decode_time: Duration,
    /// Tokens drafted; 0 without drafts.
    pub n_drafted: usize,
    /// Drafted tokens that were chosen.
    pub n_accepted: usize,
}

impl Timings {
    /// Prompt tokens computed per second; 0 if no time passed.
    pub fn prompt_tokens_per_second(&self) -> f64 {
        per_second(self.n_prompt - self.n_cached, self.prompt_time)
    }

    /// Tokens generated per second; 0 if no time passed.
    pub fn decode_tokens_per_second(&self) -> f64 {
        per_second(self.n_generated, self.decode_time)
    }
}

/// `n` per second; 0 if no time passed.
fn per_second(n: usize, time: Duration) -> f64 {
    match time.as_secs_f64() {
        0.0 => 0.0,
        seconds => n as f64 / seconds,
    }
}
