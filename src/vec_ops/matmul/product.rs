//! One checked product: how it is cut into shares, and the walk over rows and tokens within a share.

use super::driver::{Input, Job};
use super::error::{MatmulError, check_len};
use super::panel::{
    BLOCK, FLOAT_TOKENS, FloatDot, GROUP_ROWS, MAX_PLANES, PanelBlock, RowGroup, SUPER_BLOCKS, Single,
    TILE_GROUPS, TILE_TOKENS, Tile,
};
use super::{Activations, Kernel, QuantKernel, Table, needs_quantised};
use crate::tensor::{DType, Tensor};
use crate::threads::{Stripe, Stripes};

/// Rows that a small kernel takes at once.
const TILE_ROWS: usize = GROUP_ROWS * TILE_GROUPS;

/// Bytes of panels in a share when there are many vectors, which walk past all of them: they stay in the
/// second-level cache.
const PANEL_BYTES: usize = 384 << 10;

/// Bytes of weights in a share when there are few vectors: much more than what is asked for beyond its end,
/// which is wasted.
const STREAM_BYTES: usize = 128 << 10;

/// How a product is computed: kernel and activations fit each other.
enum Plan<'a> {
    Float(FloatDot, &'a [f32]),
    Quantised(QuantKernel, &'a Activations),
}

/// A checked job.
pub(super) struct Product<'a> {
    plan: Plan<'a>,
    weight: &'a [u8],
    row_bytes: usize,
    n_in: usize,
    n_out: usize,
    n_tokens: usize,
    /// Vectors of activations per token, whose sums add up.
    n_planes: usize,
    bias: Option<&'a [f32]>,
    stripes: Stripes<'a, f32>,
}

impl<'a> Product<'a> {
    pub(super) fn new(
        kernels: &Table,
        job: &'a mut Job<'_>,
        x: Input<'a>,
        n_tokens: usize,
        n_workers: usize,
    ) -> Result<Product<'a>, MatmulError> {
        let Tensor { dtype, shape, bytes } = job.weight;
        let (n_in, n_out) = (shape.row_len(), shape.n_rows());
        let row_bytes = match dtype.bytes_for(n_in) {
            Some(n) if n > 0 && shape.0[2..] == [1, 1] => n,
            _ => return Err(MatmulError::WeightShape { dtype: *dtype, shape: *shape }),
        };
        check_len("weight in bytes", row_bytes.saturating_mul(n_out), bytes.len())?;
        check_len("output", n_out.saturating_mul(n_tokens), job.out.len())?;
        job.bias.map_or(Ok(()), |bias| check_len("bias", n_out, bias.len()))?;
        let plan = plan(kernels, *dtype, x, n_in, n_tokens)?;
        let n_planes = match plan {
            Plan::Float(..) => 1,
            Plan::Quantised(_, x) => x.n_planes(),
        };
        let grain = share_rows(n_in, n_out, row_bytes, n_tokens * n_planes, n_workers);
        Ok(Product {
            plan,
            weight: bytes,
            row_bytes,
            n_in,
            n_out,
            n_tokens,
            n_planes,
            bias: job.bias,
            stripes: Stripes::new(job.out, n_out, grain),
        })
    }

    pub(super) fn n_multiplications(&self) -> usize {
        self.n_in * self.n_out * self.n_vectors()
    }

    fn n_vectors(&self) -> usize {
        self.n_tokens * self.n_planes
    }

    /// Computes stripes until none is left; every worker calls this.
    pub(super) fn compute_share(&self, panels: &mut Vec<PanelBlock>) {
        while let Some(mut stripe) = self.stripes.claim() {
            match self.plan {
                Plan::Float(dot, x) => self.floats(dot, x, &mut stripe),
                Plan::Quantised(QuantKernel { single: Some(single), .. }, x) if self.n_tokens == 1 => {
                    self.single(single, x, &mut stripe);
                }
                Plan::Quantised(kernel, x) if self.n_vectors() <= TILE_TOKENS => {
                    self.stream(kernel, x, &mut stripe, panels);
                }
                Plan::Quantised(kernel, x) => self.tiled(kernel, x, &mut stripe, panels),
            }
        }
    }

    /// Rows of floats: eight rows at a time meet all tokens.
    fn floats(&self, dot: FloatDot, x: &[f32], stripe: &mut Stripe<'_, f32>) {
        for first_token in (0..self.n_tokens).step_by(FLOAT_TOKENS) {
            let n = FLOAT_TOKENS.min(self.n_tokens - first_token);
            let tokens: [_; FLOAT_TOKENS] =
                pick(n, |i| &x[(first_token + i) * self.n_in..(first_token + i + 1) * self.n_in]);
            for row in stripe.range().step_by(GROUP_ROWS) {
                let mut tile = [[0.0; GROUP_ROWS]; FLOAT_TOKENS];
                dot(&self.rows(row), &tokens[..n], &mut tile);
                self.store(stripe, row, first_token, &tile[..n]);
            }
        }
    }

    /// One token, with a kernel that needs no panels and meets all planes with weights it unpacks once.
    fn single(&self, single: Single, x: &Activations, stripe: &mut Stripe<'_, f32>) {
        let n_blocks = self.n_in / BLOCK;
        let vectors: [_; MAX_PLANES] = pick(self.n_planes, |plane| x.vector(plane, 0, n_blocks));
        for row in stripe.range().step_by(GROUP_ROWS) {
            let mut sums = [[0.0; GROUP_ROWS]; MAX_PLANES];
            let sums = &mut sums[..self.n_planes];
            single(&self.rows(row), &vectors[..self.n_planes], sums, self.ahead(row + GROUP_ROWS));
            self.store(stripe, row, 0, sums);
        }
    }

    /// Few tokens: rows are unpacked a super-block at a time and used at once, so weights are read once and
    /// panels stay near.
    fn stream(
        &self,
        kernel: QuantKernel,
        x: &Activations,
        stripe: &mut Stripe<'_, f32>,
        panels: &mut Vec<PanelBlock>,
    ) {
        panels.resize(panels.len().max(TILE_GROUPS * SUPER_BLOCKS), PanelBlock::ZERO);
        let (panel0, panel1) = panels.split_at_mut(SUPER_BLOCKS);
        let (n_blocks, n_vectors) = (self.n_in / BLOCK, self.n_vectors());
        for row in stripe.range().step_by(TILE_ROWS) {
            let n_groups = (stripe.range().end - row).div_ceil(GROUP_ROWS).min(TILE_GROUPS);
            let groups = [self.rows(row), self.rows(row + GROUP_ROWS)];
            let mut tile: Tile = [[[0.0; GROUP_ROWS]; TILE_TOKENS]; TILE_GROUPS];
            for first in (0..n_blocks).step_by(SUPER_BLOCKS) {
                let n = SUPER_BLOCKS.min(n_blocks - first);
                (kernel.unpack)(&groups[0], first, &mut panel0[..n], self.ahead(row + TILE_ROWS));
                if n_groups > 1 {
                    let ahead = self.ahead(row + TILE_ROWS + GROUP_ROWS);
                    (kernel.unpack)(&groups[1], first, &mut panel1[..n], ahead);
                }
                let vectors: [_; TILE_TOKENS] = pick(n_vectors, |vector| x.vector(vector, first, n));
                (kernel.dot)(&[&panel0[..n], &panel1[..n]][..n_groups], &vectors[..n_vectors], &mut tile);
            }
            for (group, lanes) in tile.iter().enumerate().take(n_groups) {
                self.store(stripe, row + group * GROUP_ROWS, 0, &lanes[..n_vectors]);
            }
        }
    }

    /// Many tokens: the share's rows are unpacked whole, then meet all tokens tile by tile.
    fn tiled(
        &self,
        kernel: QuantKernel,
        x: &Activations,
        stripe: &mut Stripe<'_, f32>,
        panels: &mut Vec<PanelBlock>,
    ) {
        let n_blocks = self.n_in / BLOCK;
        let rows = stripe.range();
        let n_groups = rows.len().div_ceil(GROUP_ROWS);
        panels.resize(panels.len().max(n_groups * n_blocks), PanelBlock::ZERO);
        for (row, panel) in rows.clone().step_by(GROUP_ROWS).zip(panels.chunks_exact_mut(n_blocks)) {
            (kernel.unpack)(&self.rows(row), 0, panel, self.ahead(row + GROUP_ROWS));
        }
        for first_vector in (0..self.n_vectors()).step_by(TILE_TOKENS) {
            let n = TILE_TOKENS.min(self.n_vectors() - first_vector);
            let vectors: [_; TILE_TOKENS] = pick(n, |i| x.vector(first_vector + i, 0, n_blocks));
            for row in rows.clone().step_by(TILE_ROWS) {
                let n_groups = (rows.end - row).div_ceil(GROUP_ROWS).min(TILE_GROUPS);
                let panel = &panels[(row - rows.start) / GROUP_ROWS * n_blocks..][..n_groups * n_blocks];
                let (first, second) = panel.split_at(n_blocks);
                let mut tile: Tile = [[[0.0; GROUP_ROWS]; TILE_TOKENS]; TILE_GROUPS];
                (kernel.dot)(&[first, second][..n_groups], &vectors[..n], &mut tile);
                for (group, lanes) in tile.iter().enumerate().take(n_groups) {
                    self.store(stripe, row + group * GROUP_ROWS, first_vector, &lanes[..n]);
                }
            }
        }
    }

    /// The bytes of eight rows from `row` on; beyond the end the last row stands in.
    fn rows(&self, row: usize) -> RowGroup<'_> {
        std::array::from_fn(|i| {
            let start = (row + i).min(self.n_out - 1) * self.row_bytes;
            &self.weight[start..start + self.row_bytes]
        })
    }

    /// The bytes from `row` on, to be asked for before they are needed.
    fn ahead(&self, row: usize) -> &[u8] {
        &self.weight[self.weight.len().min(row * self.row_bytes)..]
    }

    /// Writes the sums `[vector][row]` of eight rows from `row` on, as far as they belong to the stripe: a
    /// token's planes in order, then the bias. Vectors start and end with whole tokens.
    fn store(
        &self,
        stripe: &mut Stripe<'_, f32>,
        row: usize,
        first_vector: usize,
        sums: &[[f32; GROUP_ROWS]],
    ) {
        let range = stripe.range();
        let n = GROUP_ROWS.min(range.end - row);
        let bias: Option<[f32; GROUP_ROWS]> =
            self.bias.map(|bias| std::array::from_fn(|i| bias[(row + i).min(self.n_out - 1)]));
        for (token, planes) in sums.chunks_exact(self.n_planes).enumerate() {
            let mut lanes = planes[0];
            for more in planes[1..].iter().chain(&bias) {
                lanes.iter_mut().zip(more).for_each(|(y, x)| *y += x);
            }
            let out = &mut stripe.row_mut(first_vector / self.n_planes + token)[row - range.start..];
            match out.first_chunk_mut() {
                Some(out) => *out = lanes,
                None => out.copy_from_slice(&lanes[..n]),
            }
        }
    }
}

fn plan<'a>(
    kernels: &Table,
    dtype: DType,
    x: Input<'a>,
    n_in: usize,
    n_tokens: usize,
) -> Result<Plan<'a>, MatmulError> {
    let kernel = kernels.kernel(dtype).ok_or(MatmulError::WeightType(dtype))?;
    match (kernel, x) {
        (Kernel::Float(dot), Input::F32(x)) => {
            check_len("activations", n_in.saturating_mul(n_tokens), x.len())?;
            Ok(Plan::Float(dot, x))
        }
        (Kernel::Quantised(kernel), Input::Quantised(x)) => {
            check_len("a token's activations", n_in, x.n_in())?;
            check_len("activations in tokens", n_tokens, x.n_tokens())?;
            Ok(Plan::Quantised(kernel, x))
        }
        (_, x) => {
            let name = |quantised| if quantised { "quantised" } else { "f32" };
            let got = name(matches!(x, Input::Quantised(_)));
            Err(MatmulError::Form { dtype, expected: name(needs_quantised(dtype)), got })
        }
    }
}

/// Rows per share: few enough that every worker gets several, many enough that claiming costs nothing.
fn share_rows(n_in: usize, n_out: usize, row_bytes: usize, n_vectors: usize, n_workers: usize) -> usize {
    let wanted = if n_vectors > TILE_TOKENS {
        PANEL_BYTES * GROUP_ROWS / (n_in.div_ceil(BLOCK) * size_of::<PanelBlock>())
    } else {
        STREAM_BYTES.div_ceil(row_bytes)
    };
    wanted.min(n_out / (4 * n_workers)).next_multiple_of(TILE_ROWS).max(TILE_ROWS)
}

/// `[get(0), .., get(n - 1)]`, the rest filled with the first.
fn pick<'a, T, const N: usize>(n: usize, get: impl Fn(usize) -> &'a [T]) -> [&'a [T]; N] {
    std::array::from_fn(|i| get(if i < n { i } else { 0 }))
}
