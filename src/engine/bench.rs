//! Throughput as llama-bench measures it.

use std::time::{Duration, Instant};

use super::{Batch, Context, EngineError};
use crate::graph::WorkCounts;
use crate::kv::SeqId;

/// What to measure: `n_prompt` tokens at once, or `n_gen` one after the other, after `depth` tokens that are
/// there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BenchTest {
    /// Prompt processing.
    Prefill {
        /// Tokens computed.
        n_prompt: usize,
        /// Tokens before them.
        depth: usize,
    },
    /// Token-by-token generation.
    Decode {
        /// Tokens computed.
        n_gen: usize,
        /// Tokens before them.
        depth: usize,
    },
}

impl BenchTest {
    /// Tokens that the time is divided by.
    pub fn n_tokens(&self) -> usize {
        match *self {
            BenchTest::Prefill { n_prompt, .. } => n_prompt,
            BenchTest::Decode { n_gen, .. } => n_gen,
        }
    }

    /// Tokens of context that it needs.
    pub fn n_ctx(&self) -> usize {
        match *self {
            BenchTest::Prefill { n_prompt: n, depth } | BenchTest::Decode { n_gen: n, depth } => {
                n.saturating_add(depth)
            }
        }
    }
}

/// What the measured part of a test took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BenchRun {
    /// How long it took.
    pub time: Duration,
    /// What the device did meanwhile; all zero without one.
    pub work: WorkCounts,
}

impl Context {
    /// Runs a test once. The tokens are arbitrary but the same each time;
    /// no text is made of them.
    pub fn bench(&mut self, test: BenchTest) -> Result<BenchRun, EngineError> {
        let seq = self.kv_mut().open()?;
        let result = self.bench_in(seq, test);
        self.kv_mut().close(seq)?;
        result
    }

    fn bench_in(&mut self, seq: SeqId, test: BenchTest) -> Result<BenchRun, EngineError> {
        let n_vocab = self.engine().model().hparams.n_vocab;
        let token = move |i: usize| (i.wrapping_mul(2_654_435_761) % n_vocab) as u32;
        let (n, depth, per_step) = match test {
            BenchTest::Prefill { n_prompt, depth } => (n_prompt, depth, n_prompt),
            BenchTest::Decode { n_gen, depth } => (n_gen, depth, 1),
        };
        if depth > 0 {
            let before: Vec<u32> = (0..depth).map(token).collect();
            self.decode(&Batch::prompt(seq, &before))?;
        }
        let tokens: Vec<u32> = (depth..depth + n).map(token).collect();
        let (start, before) = (Instant::now(), self.work());
        for step in tokens.chunks(per_step.max(1)) {
            self.decode(&Batch::prompt(seq, step))?;
        }
        Ok(BenchRun { time: start.elapsed(), work: self.work().since(before) })
    }
}
