//! Throughput as llama-bench measures it.

use std::time::{Duration, Instant};

use super::{Batch, Context, EngineError};
use crate::graph::{PAGE_TOKENS, WorkCounts};
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
    /// Token-by-token generation of several sequences together.
    Together {
        /// Sequences.
        n_seq: usize,
        /// Tokens computed of each.
        n_gen: usize,
        /// Tokens before them in each.
        depth: usize,
    },
}

impl BenchTest {
    /// Tokens that the time is divided by.
    pub fn n_tokens(&self) -> usize {
        match *self {
            BenchTest::Prefill { n_prompt, .. } => n_prompt,
            BenchTest::Decode { n_gen, .. } => n_gen,
            BenchTest::Together { n_seq, n_gen, .. } => n_seq.saturating_mul(n_gen),
        }
    }

    /// Sequences that it needs.
    pub fn n_seq(&self) -> usize {
        match *self {
            BenchTest::Together { n_seq, .. } => n_seq,
            _ => 1,
        }
    }

    /// Tokens of context that it needs.
    pub fn n_ctx(&self) -> usize {
        match *self {
            BenchTest::Prefill { n_prompt: n, depth } | BenchTest::Decode { n_gen: n, depth } => {
                n.saturating_add(depth)
            }
            // A page belongs to one sequence.
            BenchTest::Together { n_seq, n_gen, depth } => {
                n_seq.saturating_mul(n_gen.saturating_add(depth).div_ceil(PAGE_TOKENS) * PAGE_TOKENS)
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
        let mut seqs = Vec::new();
        let result = self.bench_in(&mut seqs, test);
        for seq in seqs {
            self.kv_mut().close(seq)?;
        }
        result
    }

    /// Leaves the sequences that it opens in `seqs`.
    fn bench_in(&mut self, seqs: &mut Vec<SeqId>, test: BenchTest) -> Result<BenchRun, EngineError> {
        let n_vocab = self.engine().model().hparams.n_vocab;
        let token = move |i: usize| (i.wrapping_mul(2_654_435_761) % n_vocab) as u32;
        let (n, depth, per_step) = match test {
            BenchTest::Prefill { n_prompt, depth } => (n_prompt, depth, n_prompt),
            BenchTest::Decode { n_gen, depth } | BenchTest::Together { n_gen, depth, .. } => {
                (n_gen, depth, 1)
            }
        };
        for _ in 0..test.n_seq() {
            let seq = self.kv_mut().open()?;
            seqs.push(seq);
            if depth > 0 {
                let before: Vec<u32> = (0..depth).map(token).collect();
                self.decode(&Batch::prompt(seq, &before))?;
            }
        }
        let tokens: Vec<u32> = (depth..depth + n).map(token).collect();
        let (start, before) = (Instant::now(), self.work());
        for step in tokens.chunks(per_step.max(1)) {
            let mut batch = Batch::new();
            for &seq in &*seqs {
                batch.extend(Batch::prompt(seq, step));
            }
            self.decode(&batch)?;
        }
        Ok(BenchRun { time: start.elapsed(), work: self.work().since(before) })
    }
}
