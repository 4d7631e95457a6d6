//! Attention and row ops as a model's layer runs them: `cargo bench --bench attention [-- N_THREADS]`.

mod clock;

use std::sync::Arc;
use std::time::Instant;

use minfer::backends::cpu::{CpuBackend, CpuOptions};
use minfer::graph::{
    Attn, Backend, KvFormat, KvShape, KvcacheStore, Node, NodeCall, NodeId, NodeMeta, Op, Operand,
    PAGE_TOKENS, RmsNorm, Slot, SwiGLU, WeightRef,
};
use minfer::tensor::{DType, Shape, Tensor, TensorMap};
use minfer::threads::{ThreadPool, default_threads};
use minfer::vec_ops::Isa;

use clock::Clock;

const HEAD_DIM: usize = 64;

fn main() {
    let n_threads =
        std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or_else(default_threads);
    let pool = Arc::new(ThreadPool::new(n_threads).expect("a worker pool"));
    for isa in Isa::available() {
        println!("{}, {n_threads} threads", isa.name());
        for (n_head, n_head_kv) in [(14, 2), (9, 3)] {
            for (n_tokens, depth) in [(1, 128), (1, 2048), (512, 0), (512, 1536)] {
                let mut bench = Bench::new(isa, &pool);
                let ns = bench.attention(n_head, n_head_kv, n_tokens, depth);
                let n_scores: usize = (depth + 1..=depth + n_tokens).sum();
                let fused = (n_scores * n_head * 2 * HEAD_DIM) as f64;
                println!(
                    "  attention {n_head}/{n_head_kv}, {n_tokens} tokens at depth {depth}: {:9.1} µs, {:5.1} products/ns",
                    ns / 1e3,
                    fused / ns
                );
            }
        }
        for n_tokens in [1, 512] {
            let mut bench = Bench::new(isa, &pool);
            let (norm, swiglu) = (bench.rms_norm(896, n_tokens), bench.swiglu(4864, n_tokens));
            println!("  {n_tokens} tokens: RmsNorm {:8.1} µs, SwiGLU {:8.1} µs", norm / 1e3, swiglu / 1e3);
        }
    }
}

struct Bench {
    backend: CpuBackend,
    clock: Clock,
}

impl Bench {
    fn new(isa: Isa, pool: &Arc<ThreadPool>) -> Bench {
        let mut weights = TensorMap::default();
        weights.insert("norm", Tensor::from_f32(Shape::d1(896), &[0.5; 896]));
        let options = CpuOptions { weights: Arc::new(weights), pool: Arc::clone(pool), isa };
        Bench { backend: CpuBackend::new(options), clock: Clock::new(pool.n_workers()) }
    }

    fn value(&mut self, shape: Shape, dtype: DType, bytes: &[u8]) -> Operand {
        let id = self.backend.alloc(bytes.len()).expect("a buffer");
        self.backend.write(id, 0, bytes).expect("a buffer");
        Operand { slot: Slot::Buffer { id, offset_bytes: 0 }, shape, dtype }
    }

    fn f32(&mut self, shape: Shape) -> Operand {
        let values: Vec<f32> = (0..shape.n_elems()).map(|i| (i as f32 * 0.37).sin()).collect();
        self.value(shape, DType::F32, bytemuck::cast_slice(&values))
    }

    fn i32(&mut self, values: &[i32]) -> Operand {
        self.value(Shape::d1(values.len()), DType::I32, bytemuck::cast_slice(values))
    }

    /// Nanoseconds of the fastest of several runs.
    fn time(&mut self, op: Op, srcs: &[Operand], weights: Vec<WeightRef>, out: Operand) -> f64 {
        let node = Node {
            id: NodeId(0),
            name: "bench".into(),
            op,
            src: Vec::new(),
            shape: out.shape,
            dtype: out.dtype,
            layer: Some(0),
            backend: None,
            meta: NodeMeta { weights },
        };
        let mut best = f64::INFINITY;
        let start = Instant::now();
        while start.elapsed().as_millis() < 300 {
            let run = self.clock.now();
            self.backend.execute_node(&NodeCall { node: &node, srcs, out }).expect("a node that fits");
            best = best.min((self.clock.now() - run).as_nanos() as f64);
        }
        best
    }

    fn rms_norm(&mut self, n_embd: usize, n_tokens: usize) -> f64 {
        let shape = Shape::d2(n_embd, n_tokens);
        let (x, out) = (self.f32(shape), self.f32(shape));
        let weight = WeightRef { name: "norm".into(), shape: Shape::d1(n_embd), dtype: DType::F32 };
        self.time(RmsNorm { eps: 1e-6 }.into(), &[x], vec![weight], out)
    }

    fn swiglu(&mut self, n_ff: usize, n_tokens: usize) -> f64 {
        let shape = Shape::d2(n_ff, n_tokens);
        let (gate, up) = (self.f32(shape), self.f32(shape));
        self.time(SwiGLU.into(), &[gate, up], Vec::new(), gate)
    }

    fn attention(&mut self, n_head: usize, n_head_kv: usize, n_tokens: usize, depth: usize) -> f64 {
        let n_cells = (depth + n_tokens).next_multiple_of(PAGE_TOKENS);
        let row = n_head_kv * HEAD_DIM;
        let kv = KvShape { n_cells, k_row_elems: row, v_row_elems: row, format: KvFormat::F16 };
        self.backend.alloc_kv(0, kv).expect("KV regions");
        let regions = Operand { slot: Slot::Kv { layer: 0 }, shape: kv.spec().shape, dtype: kv.spec().dtype };
        let all = self.f32(Shape::d2(row, n_cells));
        let cells: Vec<i32> = (0..n_cells as i32).collect();
        let cells = self.i32(&cells);
        self.time(KvcacheStore { layer: 0, kv }.into(), &[all, all, cells], Vec::new(), regions);
        let q = self.f32(Shape::d2(n_head * HEAD_DIM, n_tokens));
        let out = self.f32(Shape::d2(n_head * HEAD_DIM, n_tokens));
        let positions: Vec<i32> = (depth as i32..(depth + n_tokens) as i32).collect();
        let (positions, seq_ids) = (self.i32(&positions), self.i32(&vec![0; n_tokens]));
        let pages: Vec<i32> = (0..(n_cells / PAGE_TOKENS) as i32).collect();
        let kv_pages = self.i32(&pages);
        let op =
            Attn { n_head, n_head_kv, head_dim: HEAD_DIM, head_dim_v: HEAD_DIM, scale: 0.125, window: None };
        self.time(op.into(), &[q, regions, positions, seq_ids, kv_pages], Vec::new(), out)
    }
}
