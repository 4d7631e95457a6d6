//! Cosines and sines of the rotation angles of the tokens of a step, made once and used by every layer.

use std::sync::Arc;

use crate::graph::{RoPE, RopeStyle, Yarn};

/// Tables kept at once: models have one kind of rotation, or one per kind of layer.
const MAX_TABLES: usize = 4;

/// The tables of the latest rotations, most recent last.
#[derive(Default)]
pub(super) struct RopeTables {
    tables: Vec<RopeTable>,
}

/// Cosines and sines for one rotation and the positions of one step.
pub(super) struct RopeTable {
    op: RoPE,
    factors: Option<Arc<str>>,
    /// Angle per position of each pair, `[n_rot / 2]`.
    frequencies: Vec<f64>,
    magnitude: f64,
    positions: Vec<i32>,
    /// `[row_len, n_tokens]`.
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTables {
    /// The table of `op` for `positions`. `factors` are the name and values `[n_rot / 2]` of the weight that divides
    /// the frequencies.
    pub(super) fn get(
        &mut self,
        op: &RoPE,
        factors: Option<(&Arc<str>, &[f32])>,
        positions: &[i32],
    ) -> &RopeTable {
        let name = factors.map(|(name, _)| name);
        let found = self.tables.iter().position(|table| table.op == *op && table.factors.as_ref() == name);
        let mut table = match found {
            Some(index) => self.tables.remove(index),
            None => RopeTable::new(op, factors),
        };
        if table.positions != positions {
            table.fill(positions);
        }
        if self.tables.len() == MAX_TABLES {
            self.tables.remove(0);
        }
        self.tables.push(table);
        &self.tables[self.tables.len() - 1]
    }
}

impl RopeTable {
    fn new(op: &RoPE, factors: Option<(&Arc<str>, &[f32])>) -> RopeTable {
        RopeTable {
            op: op.clone(),
            factors: factors.map(|(name, _)| Arc::clone(name)),
            frequencies: frequencies(op, factors.map(|(_, values)| values)),
            magnitude: op.yarn.map_or(1.0, |yarn| magnitude(op, &yarn)),
            positions: Vec::new(),
            cos: Vec::new(),
            sin: Vec::new(),
        }
    }

    /// Elements per token: one per pair, or two where the pair's elements are neighbours.
    fn row_len(&self) -> usize {
        self.frequencies.len() * self.copies()
    }

    fn copies(&self) -> usize {
        match self.op.style {
            RopeStyle::NonInterleaved => 1,
            RopeStyle::Interleaved => 2,
        }
    }

    /// Cosines and sines of a token, in the form that the row kernel of the style reads.
    pub(super) fn row(&self, token: usize) -> (&[f32], &[f32]) {
        let range = token * self.row_len()..(token + 1) * self.row_len();
        (&self.cos[range.clone()], &self.sin[range])
    }

    fn fill(&mut self, positions: &[i32]) {
        let copies = self.copies();
        self.cos.clear();
        self.sin.clear();
        for position in positions {
            for frequency in &self.frequencies {
                let (sin, cos) = (f64::from(*position) * frequency).sin_cos();
                self.cos.extend(std::iter::repeat_n((cos * self.magnitude) as f32, copies));
                self.sin.extend(std::iter::repeat_n((sin * self.magnitude) as f32, copies));
            }
        }
        self.positions.clear();
        self.positions.extend_from_slice(positions);
    }
}

/// Angle per position of each pair, `[n_rot / 2]`.
fn frequencies(op: &RoPE, factors: Option<&[f32]>) -> Vec<f64> {
    let (base, scale) = (f64::from(op.freq_base), f64::from(op.freq_scale));
    let pairs = 0..op.n_rot / 2;
    let frequency = |pair: usize| {
        let plain = base.powf(-2.0 * pair as f64 / op.n_rot as f64);
        let plain = factors.map_or(plain, |factors| plain / f64::from(factors[pair]));
        let kept = op.yarn.map_or(0.0, |yarn| kept_part(op, &yarn, pair));
        plain * scale * (1.0 - kept) + plain * kept
    };
    pairs.map(frequency).collect()
}

/// How much of a pair's frequency YaRN leaves as it is: 1 for fast pairs, 0 for slow ones, a ramp in between.
fn kept_part(op: &RoPE, yarn: &Yarn, pair: usize) -> f64 {
    let (n_rot, base) = (op.n_rot as f64, f64::from(op.freq_base));
    // The pair that makes this many rotations over the original context.
    let pair_with = |n_rotations: f32| {
        let wavelength = yarn.n_ctx_orig as f64 / (f64::from(n_rotations) * std::f64::consts::TAU);
        n_rot * wavelength.ln() / (2.0 * base.ln())
    };
    let low = pair_with(yarn.beta_fast).floor().max(0.0);
    let high = pair_with(yarn.beta_slow).ceil().min(n_rot - 1.0);
    let ramp = (pair as f64 - low) / (high - low).max(0.001);
    (1.0 - ramp.clamp(0.0, 1.0)) * f64::from(yarn.ext_factor)
}

/// YaRN's factor on cosine and sine, which stands for a temperature of the attention.
fn magnitude(op: &RoPE, yarn: &Yarn) -> f64 {
    let stretched = yarn.ext_factor != 0.0 && op.freq_scale < 1.0;
    let temperature = if stretched { 1.0 - 0.1 * f64::from(op.freq_scale).ln() } else { 1.0 };
    f64::from(yarn.attn_factor) * temperature
}
