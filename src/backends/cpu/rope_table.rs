//! Cosines and sines of the rotation angles of the tokens of a step, made once and used by every layer.

use std::sync::Arc;

use crate::backends::rotation::{frequencies, magnitude};
use crate::graph::{RoPE, RopeStyle};

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
    /// The table of `op` for `positions`. `factors` are the name and values `[n_rot / 2]` of the weight that
    /// divides the frequencies.
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
            magnitude: magnitude(op),
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
