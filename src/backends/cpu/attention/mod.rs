//! Block-wise attention over paged keys and values.
//!
//! For one token and head the result is a fixed sequence of operations that depends on the token's position
//! and what it sees, and on nothing else: pages in order of their positions, in each page the scores of all
//! its visible keys, one update of the running softmax, the weighted values key by key. After every
//! [`SEGMENT_PAGES`] pages a new accumulation begins, and the accumulations are merged in order at the end;
//! where they begin depends on positions alone. So it makes no difference which tokens share a page's
//! conversion, or whether segments are computed by one thread or by several.

mod plan;
mod workspace;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::device::Device;
use super::kv::KvLayer;
use super::parallel::worth_waking;
use crate::graph::{Attn, PAGE_TOKENS};
use crate::threads::lock;
use crate::vec_ops::attention::{PAGE_KEYS, PageScores};
pub(super) use plan::{BadInput, Tile, Tokens, tiles, visible};
pub(super) use workspace::Workspaces;
use workspace::{Partial, Workspace};

const _: () = assert!(PAGE_KEYS == PAGE_TOKENS, "a block of scores is a page");

/// Pages between two beginnings of an accumulation.
const SEGMENT_PAGES: usize = 8;

/// Multiplications and additions that one thread does in a nanosecond, about.
const FUSED_PER_NS: f32 = 25.0;

/// The attention of one step and layer.
pub(super) struct Attention<'a> {
    pub(super) device: &'a Device,
    pub(super) op: &'a Attn,
    pub(super) kv: &'a KvLayer,
    /// In batch order.
    pub(super) tiles: Vec<Tile<'a>>,
    /// `[head_dim * n_head, n_tokens]`.
    pub(super) q: &'a [f32],
}

/// What one thread does at a time: a tile, one KV head, some segments.
struct Unit {
    tile: usize,
    head: usize,
    segments: Range<usize>,
}

impl Attention<'_> {
    /// Computes `out` `[head_dim_v * n_head, n_tokens]`.
    pub(super) fn run(&self, workspaces: &mut Workspaces, out: &mut [f32]) {
        let pool = &self.device.pool;
        let workers = workspaces.prepare(pool.n_workers());
        let out = Mutex::new(out);
        let units = self.units(pool.n_workers());
        let split = units.iter().any(|unit| unit.segments != self.segments(unit.tile));
        let partials: Vec<Mutex<Partial>> =
            units.iter().filter(|_| split).map(|_| Mutex::default()).collect();
        let compute = |range: Range<usize>, worker: usize| {
            let mut workspace = lock(&workers[worker]);
            for index in range {
                self.unit(&units[index], &mut workspace);
                match partials.get(index) {
                    Some(partial) => std::mem::swap(&mut *lock(partial), &mut workspace.total),
                    None => self.write(&units[index], &workspace.total, &mut lock(&out)),
                }
            }
        };
        let grain = if worth_waking(self.cost_ns()) { 1 } else { units.len() };
        pool.for_chunks(units.len(), grain, &compute);
        self.merge_units(&units, partials, &mut lock(&out));
    }

    /// Query heads per KV head.
    fn group(&self) -> usize {
        self.op.n_head / self.op.n_head_kv
    }

    /// About what one thread would need.
    fn cost_ns(&self) -> f32 {
        let n_scores = |tile: &Tile<'_>| {
            tile.tokens.len() * visible(tile.position + tile.tokens.len() - 1, self.op.window).len()
        };
        let n_scores: usize = self.tiles.iter().map(n_scores).sum();
        (n_scores * self.op.n_head * (self.op.head_dim + self.op.head_dim_v)) as f32 / FUSED_PER_NS
    }

    /// The segments that tokens of a tile see.
    fn segments(&self, tile: usize) -> Range<usize> {
        let pages = self.pages(&self.tiles[tile]);
        pages.start / SEGMENT_PAGES..pages.end.div_ceil(SEGMENT_PAGES)
    }

    /// The pages that tokens of a tile see.
    fn pages(&self, tile: &Tile<'_>) -> Range<usize> {
        let first = visible(tile.position, self.op.window).start;
        first / PAGE_TOKENS..(tile.position + tile.tokens.len()).div_ceil(PAGE_TOKENS)
    }

    /// The shares of the work, large ones first; single segments if there would be too few otherwise.
    fn units(&self, n_workers: usize) -> Vec<Unit> {
        let n_heads = self.op.n_head_kv;
        let split =
            n_workers > 1 && self.tiles.len() * n_heads < 4 * n_workers && worth_waking(self.cost_ns());
        let mut units = Vec::new();
        for tile in (0..self.tiles.len()).rev() {
            for head in 0..n_heads {
                let segments = self.segments(tile);
                match split {
                    true => units.extend(segments.map(|s| Unit { tile, head, segments: s..s + 1 })),
                    false => units.push(Unit { tile, head, segments }),
                }
            }
        }
        units
    }

    /// Computes a unit into `workspace.total`.
    fn unit(&self, unit: &Unit, workspace: &mut Workspace) {
        let tile = &self.tiles[unit.tile];
        workspace.start(self.op, tile.tokens.len() * self.group());
        self.gather_queries(tile, unit.head, &mut workspace.q);
        let pages = self.pages(tile);
        for segment in unit.segments.clone() {
            let first = pages.start.max(segment * SEGMENT_PAGES);
            let end = pages.end.min((segment + 1) * SEGMENT_PAGES);
            workspace.partial.clear();
            for page in first..end {
                self.page(tile, unit.head, page, workspace);
            }
            let Workspace { total, partial, .. } = workspace;
            total.merge(self.device.attention, partial);
        }
    }

    /// Copies the queries of a tile's tokens and one KV head to `[head_dim, group * n_tokens]`.
    fn gather_queries(&self, tile: &Tile<'_>, head: usize, q: &mut [f32]) {
        let (row, part) = (self.op.n_head * self.op.head_dim, self.group() * self.op.head_dim);
        for (token, q) in tile.tokens.clone().zip(q.chunks_exact_mut(part)) {
            let start = token * row + head * part;
            q.copy_from_slice(&self.q[start..start + part]);
        }
    }

    /// Adds what the tokens of a tile see in one page.
    fn page(&self, tile: &Tile<'_>, head: usize, page: usize, workspace: &mut Workspace) {
        let Attn { head_dim, head_dim_v, .. } = *self.op;
        // Checked when the tile was made.
        let physical = tile.pages[page] as usize;
        let rows = self.device.rows;
        self.kv.read_keys(rows, physical, head * head_dim..(head + 1) * head_dim, &mut workspace.keys);
        let columns = head * head_dim_v..(head + 1) * head_dim_v;
        self.kv.read_values(rows, physical, columns, workspace.stride, &mut workspace.values);
        let n_tokens = tile.tokens.len();
        let mut token = 0;
        while token < n_tokens {
            let keys = self.keys_seen(tile.position + token, page);
            let mut end = token + 1;
            // Tokens that see the whole page go together.
            while keys.len() == PAGE_TOKENS
                && end < n_tokens
                && self.keys_seen(tile.position + end, page) == keys
            {
                end += 1;
            }
            if !keys.is_empty() {
                self.block(token * self.group()..end * self.group(), keys, workspace);
            }
            token = end;
        }
    }

    /// The keys of a page that the token at `position` sees.
    fn keys_seen(&self, position: usize, page: usize) -> Range<usize> {
        let seen = visible(position, self.op.window);
        let first = page * PAGE_TOKENS;
        let within = |position: usize| position.saturating_sub(first).min(PAGE_TOKENS);
        within(seen.start)..within(seen.end)
    }

    /// Adds what the query rows `rows`, all of which see `keys`, find in the page in the workspace.
    fn block(&self, rows: Range<usize>, keys: Range<usize>, workspace: &mut Workspace) {
        let kernels = self.device.attention;
        let head_dim = self.op.head_dim;
        let Workspace { q, keys: key_page, values, scores, partial, stride, .. } = workspace;
        let stride = *stride;
        let scores = &mut scores[rows.start..rows.end];
        scores.as_flattened_mut().fill(0.0);
        let q = &q[rows.start * head_dim..rows.end * head_dim];
        (kernels.accumulate)(q, head_dim, key_page, PAGE_TOKENS, scores.as_flattened_mut());
        let sums = &mut partial.values[rows.start * stride..rows.end * stride];
        let states = &mut partial.states[rows];
        for ((lanes, state), sums) in scores.iter_mut().zip(states).zip(sums.chunks_exact_mut(stride)) {
            let page_scores = PageScores { lanes, keys: keys.clone(), scale: self.op.scale };
            let factor = (kernels.update_softmax)(page_scores, state);
            if factor != 1.0 {
                (self.device.rows.scale)(sums, factor);
            }
        }
        let weights = &scores.as_flattened()[keys.start..];
        let values = &values[keys.start * stride..keys.end * stride];
        (kernels.accumulate)(weights, PAGE_TOKENS, values, stride, sums);
    }

    /// Merges the units of split tiles in order and writes their results.
    fn merge_units(&self, units: &[Unit], partials: Vec<Mutex<Partial>>, out: &mut [f32]) {
        let mut partials =
            partials.into_iter().map(|partial| partial.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut total = Partial::default();
        for (index, unit) in units.iter().enumerate() {
            let Some(partial) = partials.next() else { return };
            let segments = self.segments(unit.tile);
            if unit.segments.start == segments.start {
                total = partial;
            } else {
                total.merge(self.device.attention, &partial);
            }
            if unit.segments.end == segments.end {
                self.write(&units[index], &total, out);
            }
        }
    }

    /// Divides by the sums of weights and writes the heads of a unit's tokens.
    fn write(&self, unit: &Unit, total: &Partial, out: &mut [f32]) {
        let Attn { head_dim_v, n_head, .. } = *self.op;
        let group = self.group();
        let stride = total.values.len() / total.states.len();
        for (row, values) in total.values.chunks_exact(stride).enumerate() {
            let token = self.tiles[unit.tile].tokens.start + row / group;
            let head = unit.head * group + row % group;
            let start = (token * n_head + head) * head_dim_v;
            let out = &mut out[start..start + head_dim_v];
            out.copy_from_slice(&values[..head_dim_v]);
            (self.device.rows.scale)(out, 1.0 / total.states[row].sum);
        }
    }
}
