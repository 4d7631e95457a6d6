//! Speed of the matmul per weight type: `cargo bench --bench matmul -- [n_in] [n_out] [n_threads] [type]`.
//!
//! Prints, per instruction set, weight bytes per second for one token from memory that no cache holds, and products
//! per second for 512 tokens. The best of several tries counts, because other processes only ever make it slower.

mod clock;

use minfer::tensor::{DType, Shape, Tensor, TensorBytes};
use minfer::threads::ThreadPool;
use minfer::vec_ops::Isa;
use minfer::vec_ops::matmul::{Activations, Input, Scratch, Table, matmul, needs_quantised, table};

use clock::Clock;

/// Bytes of distinct weights to walk through, well beyond any cache.
const COLD_BYTES: usize = 256 << 20;

struct Setup<'a> {
    kernels: &'static Table,
    pool: &'a ThreadPool,
    weights: Vec<Tensor>,
    scratch: Scratch,
    clock: Clock,
}

impl Setup<'_> {
    /// Seconds per matmul: the least of `n_tries` runs through all weights.
    fn time(&mut self, n_tokens: usize, n_weights: usize, n_tries: usize) -> f64 {
        let (n_in, n_out) = (self.weights[0].shape.0[0], self.weights[0].shape.0[1]);
        let x: Vec<f32> = (0..n_in * n_tokens).map(|i| ((i * 7919) % 1001) as f32 / 500.0 - 1.0).collect();
        let mut activations = Activations::new();
        let input = if needs_quantised(self.weights[0].dtype) {
            activations.quantise(self.kernels, self.pool, &x, n_in, n_tokens).expect("whole blocks");
            Input::Quantised(&activations)
        } else {
            Input::F32(&x)
        };
        let mut out = vec![0.0; n_out * n_tokens];
        let mut least = f64::INFINITY;
        for _ in 0..n_tries {
            let started = self.clock.now();
            for weight in &self.weights[..n_weights] {
                matmul(self.kernels, self.pool, weight, None, input, n_tokens, &mut self.scratch, &mut out)
                    .expect("sizes fit");
            }
            least = least.min((self.clock.now() - started).as_secs_f64() / n_weights as f64);
        }
        least
    }
}

fn weights(dtype: DType, n_in: usize, n_out: usize) -> Vec<Tensor> {
    let n_bytes = dtype.bytes_for(n_in * n_out).expect("whole blocks");
    (0..COLD_BYTES.div_ceil(n_bytes).min(40))
        .map(|seed| {
            // 0x2d in the high byte keeps every half-precision factor small and finite.
            let bytes: Vec<u8> =
                (0..n_bytes).map(|i| if i % 2 == 1 { 0x2d } else { (i * 31 + seed) as u8 }).collect();
            Tensor { dtype, shape: Shape::d2(n_in, n_out), bytes: TensorBytes::owned(&bytes) }
        })
        .collect()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let number = |i: usize, default: usize| args.get(i).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let (n_in, n_out, n_threads) = (number(0, 1536), number(1, 8960), number(2, 1));
    let pool = ThreadPool::new(n_threads).expect("a pool");
    println!("{n_in} x {n_out}, {n_threads} thread(s)");
    for dtype in DType::all().filter(|&dtype| dtype != DType::I32) {
        if args.get(3).is_some_and(|name| name != dtype.name()) {
            continue;
        }
        let all = weights(dtype, n_in, n_out);
        let n_bytes = all[0].bytes.len() as f64;
        for isa in Isa::available().into_iter().filter(|&isa| isa != Isa::Scalar) {
            let mut setup = Setup {
                kernels: table(isa),
                pool: &pool,
                weights: all.clone(),
                scratch: Scratch::new(),
                clock: Clock::new(n_threads),
            };
            let one = setup.time(1, all.len(), 5);
            let sixteen = setup.time(16, all.len(), 2);
            let many = setup.time(512, 1, 3);
            let products = (n_in * n_out) as f64;
            println!(
                "{:7} {:7} 1 token {:6.2} GB/s   16 tokens {:6.1} GMAC/s   512 tokens {:6.1} GMAC/s",
                dtype.name(),
                isa.name(),
                n_bytes / one / 1e9,
                16.0 * products / sixteen / 1e9,
                512.0 * products / many / 1e9,
            );
        }
    }
}
