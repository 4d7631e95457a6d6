//! What a step cannot do without: bytes to read and products to add, counted in its graph.

use super::{BenchTest, Context, EngineError};
use crate::graph::{Graph, GraphType, Liveness, Node, Op};

/// Bytes read and multiply-adds of one or more steps.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// Bytes of weights: each weight that a node reads once per step, of a table only the rows that are
    /// picked.
    pub weights_bytes: u64,
    /// Bytes of keys and values that attention reads, once per step and sequence.
    pub kv_bytes: u64,
    /// Multiply-adds of weights with activations. Those of attention are not among them, as they are no int8
    /// products.
    pub macs: u64,
}

impl Cost {
    /// Of one step of `graph` for `n_seq` sequences, `n_past` tokens of each of which are there already.
    fn of(graph: &Graph, live: &Liveness, n_seq: usize, n_past: usize) -> Cost {
        live.executed(graph)
            .fold(Cost::default(), |sum, node| sum + Cost::of_node(graph, node, n_seq, n_past))
    }

    fn of_node(graph: &Graph, node: &Node, n_seq: usize, n_past: usize) -> Cost {
        let mut cost = Cost::default();
        let n_tokens = node.shape.0[1];
        for weight in &node.meta.weights {
            let n_elems = weight.shape.n_elems();
            let is_table = matches!(node.op, Op::GetRows(_));
            let n_read = if is_table { weight.shape.row_len() * n_tokens } else { n_elems };
            cost.weights_bytes += weight.dtype.bytes_for(n_read).unwrap_or(0) as u64;
            if !is_table && n_elems > weight.shape.row_len() {
                cost.macs += (n_elems * n_tokens) as u64;
            }
        }
        if let Op::Attn(attn) = &node.op {
            let n_cells = n_past + graph.params.n_tokens / n_seq;
            let n_seen = attn.window.map_or(n_cells, |window| n_cells.min(window));
            let n_elems = n_seq * n_seen * attn.n_head_kv * (attn.head_dim + attn.head_dim_v);
            let dtype = graph.params.cparams.kv_format.dtype();
            cost.kv_bytes = dtype.bytes_for(n_elems).unwrap_or(0) as u64;
        }
        cost
    }
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            weights_bytes: self.weights_bytes + other.weights_bytes,
            kv_bytes: self.kv_bytes + other.kv_bytes,
            macs: self.macs + other.macs,
        }
    }
}

impl Context {
    /// What the measured part of `test` cannot do without.
    pub fn bench_cost(&mut self, test: BenchTest) -> Result<Cost, EngineError> {
        let (n_tokens, depth, n_step) = match test {
            BenchTest::Prefill { n_prompt, depth } => (n_prompt, depth, self.n_batch()),
            BenchTest::Decode { n_gen, depth } | BenchTest::Together { n_gen, depth, .. } => {
                (n_gen, depth, 1)
            }
        };
        let n_seq = test.n_seq();
        let mut sum = Cost::default();
        for first in (0..n_tokens).step_by(n_step) {
            let n = n_step.min(n_tokens - first);
            let has_logits = n_step == 1 || first + n == n_tokens;
            let gtype = if n == 1 { GraphType::Decode } else { GraphType::Prefill };
            let params = self.params(n * n_seq, n_seq * usize::from(has_logits), gtype);
            let executable = self.executable(&params)?;
            sum = sum + Cost::of(executable.graph(), executable.liveness(), n_seq, depth + first);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::{ContextOptions, Engine, EngineOptions};
    use crate::graph::KvFormat;

    fn context(name: &str, kv_format: KvFormat) -> Context {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/reference/tiny/{name}.gguf"));
        let engine = Engine::load(&path, &EngineOptions::default()).expect("it is valid");
        let options = ContextOptions { kv_format, n_batch: 8, ..ContextOptions::default() };
        engine.context(&options).expect("it fits")
    }

    /// Bytes of all tensors of the file, of the embedding table only one row unless it is the head too;
    /// elements of the matrices.
    fn in_file(context: &Context, is_tied: bool) -> (u64, u64) {
        let (mut bytes, mut elems) = (0, 0);
        for (name, tensor) in context.engine().gguf().tensors().expect("known types").iter() {
            let (n_bytes, n_elems) = (tensor.bytes.len() as u64, tensor.shape.n_elems() as u64);
            let is_table = name == "token_embd.weight";
            if is_table {
                bytes += n_bytes / tensor.shape.0[1] as u64;
            }
            if !is_table || is_tied {
                bytes += n_bytes;
                elems += if tensor.shape.0[1] > 1 { n_elems } else { 0 };
            }
        }
        (bytes, elems)
    }

    #[test]
    fn a_decoded_token_reads_the_file_once_and_multiplies_with_every_matrix() {
        for (name, is_tied) in [("qwen2-untied-f32", false), ("qwen2-tied-q4_0", true)] {
            let mut context = context(name, KvFormat::F16);
            let (bytes, elems) = in_file(&context, is_tied);
            let cost = context.bench_cost(BenchTest::Decode { n_gen: 1, depth: 0 }).expect("it is built");
            assert_eq!((cost.weights_bytes, cost.macs), (bytes, elems), "{name}");
            let three = context.bench_cost(BenchTest::Decode { n_gen: 3, depth: 0 }).expect("it is built");
            assert_eq!((three.weights_bytes, three.macs), (3 * bytes, 3 * elems));
        }
    }

    #[test]
    fn keys_and_values_of_every_token_before_are_read() {
        for (format, n_bytes) in [(KvFormat::F16, 2), (KvFormat::F32, 4)] {
            let mut context = context("qwen2-untied-f32", format);
            let hparams = &context.engine().model().hparams;
            let per_cell = n_bytes * (hparams.n_layer * (hparams.n_embd_k() + hparams.n_embd_v())) as u64;
            let cost = context.bench_cost(BenchTest::Decode { n_gen: 2, depth: 10 }).expect("it is built");
            assert_eq!(cost.kv_bytes, (11 + 12) * per_cell);
        }
    }

    #[test]
    fn a_prompt_reads_weights_once_per_step_and_the_head_once() {
        let mut context = context("qwen2-untied-f32", KvFormat::F16);
        let decode = context.bench_cost(BenchTest::Decode { n_gen: 1, depth: 0 }).expect("it is built");
        let prefill = context.bench_cost(BenchTest::Prefill { n_prompt: 16, depth: 0 }).expect("it is built");
        let tensors = context.engine().gguf().tensors().expect("known types");
        let in_first_block = tensors.iter().filter(|(name, tensor)| {
            name.starts_with("blk.0.") && tensor.shape.n_elems() > tensor.shape.row_len()
        });
        let block_macs: u64 = in_first_block.map(|(_, tensor)| tensor.shape.n_elems() as u64).sum();
        // What follows the last attention is computed only for the row with logits.
        assert!(prefill.macs > 16 * block_macs && prefill.macs < 16 * decode.macs);
        assert!(
            prefill.weights_bytes > decode.weights_bytes && prefill.weights_bytes < 2 * decode.weights_bytes
        );
    }
}
