//! Small tables that kernels read and the host computes once.

use super::device::Gpu;
use super::pool::USAGE;
use crate::backends::rotation::{frequencies, magnitude};
use crate::graph::{BackendError, RoPE};

/// Digits of a position, and values of a digit.
const N_DIGITS: usize = 4;
const DIGIT_VALUES: usize = 256;

/// Reads the values of a weight that divides frequencies.
pub(super) type Factors<'a> = &'a dyn Fn() -> Result<Vec<f32>, BackendError>;

/// Tables of the rotations met so far.
#[derive(Default)]
pub(super) struct Tables {
    rotations: Vec<Rotation>,
}

struct Rotation {
    op: RoPE,
    factors: Option<String>,
    buffer: wgpu::Buffer,
}

impl Tables {
    /// Rotations by each digit of a position in base 256, `[n_rot / 2, 256, 4]` pairs of cosine and sine. The
    /// rotation by a position is the product of those of its digits, which is as exact as f32 allows for any
    /// position. The magnitude is part of the lowest digit's. `factors` are the name and the values
    /// `[n_rot / 2]` of the weight that divides the frequencies.
    pub(super) fn rotation(
        &mut self,
        gpu: &Gpu,
        op: &RoPE,
        factors: Option<(&str, Factors<'_>)>,
    ) -> Result<wgpu::Buffer, BackendError> {
        let name = factors.map(|(name, _)| name);
        let same = |rotation: &&Rotation| rotation.op == *op && rotation.factors.as_deref() == name;
        if let Some(rotation) = self.rotations.iter().find(same) {
            return Ok(rotation.buffer.clone());
        }
        let values = factors.map(|(_, values)| values()).transpose()?;
        let table = rotations(op, values.as_deref());
        let buffer = gpu.create_buffer(table.len() * 4, USAGE, "a table of rotations")?;
        gpu.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&table));
        let factors = name.map(str::to_owned);
        self.rotations.push(Rotation { op: op.clone(), factors, buffer: buffer.clone() });
        Ok(buffer)
    }
}

fn rotations(op: &RoPE, factors: Option<&[f32]>) -> Vec<f32> {
    let frequencies = frequencies(op, factors);
    let mut table = Vec::with_capacity(N_DIGITS * DIGIT_VALUES * frequencies.len() * 2);
    for digit in 0..N_DIGITS {
        let magnitude = if digit == 0 { magnitude(op) } else { 1.0 };
        for value in 0..DIGIT_VALUES {
            let position = (value * DIGIT_VALUES.pow(digit as u32)) as f64;
            for frequency in &frequencies {
                let (sin, cos) = (position * frequency).sin_cos();
                table.extend([(cos * magnitude) as f32, (sin * magnitude) as f32]);
            }
        }
    }
    table
}
