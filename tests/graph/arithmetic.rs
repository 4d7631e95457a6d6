//! A backend that really computes `Add`, `Mul`, `Scale`, `Silu`, `SwiGLU` and row look-ups, in memory of its own.

use std::collections::HashMap;

use minfer::graph::*;
use minfer::tensor::DType;

/// Values as 32-bit words, so that both f32 and i32 fit. Fresh buffers hold garbage. In every look-up table, element
/// `i` of row `r` is `r + i / 8`.
#[derive(Default)]
pub(crate) struct Arithmetic {
    buffers: Vec<Vec<u32>>,
    spare: HashMap<usize, Vec<u32>>,
    fail_at: Option<String>,
}

const GARBAGE: u32 = 0x7fc0_dead;

impl Arithmetic {
    /// Fails when it is to compute the node `fail_at`.
    pub(crate) fn failing_at(fail_at: Option<&str>) -> Arithmetic {
        Arithmetic { fail_at: fail_at.map(str::to_owned), ..Arithmetic::default() }
    }

    fn values(&self, operand: &Operand) -> Vec<f32> {
        self.words(operand).iter().map(|&word| f32::from_bits(word)).collect()
    }

    fn words(&self, operand: &Operand) -> &[u32] {
        let Slot::Buffer { id, offset_bytes } = operand.slot else { panic!("no KV regions here") };
        &self.buffers[id.0 as usize][offset_bytes / 4..][..operand.shape.n_elems()]
    }

    fn compute(&self, call: &NodeCall<'_>) -> Vec<f32> {
        let silu = |x: f32| x / (1.0 + (-x).exp());
        let unary = |f: &dyn Fn(f32) -> f32| self.values(&call.srcs[0]).into_iter().map(f).collect();
        let binary = |f: &dyn Fn(f32, f32) -> f32| {
            let (a, b) = (self.values(&call.srcs[0]), self.values(&call.srcs[1]));
            a.into_iter().zip(b).map(|(a, b)| f(a, b)).collect()
        };
        match &call.node.op {
            Op::Add(_) => binary(&|a, b| a + b),
            Op::Mul(_) => binary(&|a, b| a * b),
            Op::SwiGLU(_) => binary(&|a, b| silu(a) * b),
            Op::Silu(_) => unary(&silu),
            Op::Scale(scale) => unary(&|x| x * scale.factor),
            Op::GetRows(_) => {
                let row_len = call.out.shape.row_len();
                let row = |&id: &u32| (0..row_len).map(move |i| id as f32 + i as f32 / 8.0);
                self.words(&call.srcs[0]).iter().flat_map(row).collect()
            }
            other => panic!("no {other:?} here"),
        }
    }
}

impl Backend for Arithmetic {
    fn name(&self) -> &'static str {
        "arithmetic"
    }

    fn supports_op(&self, _: &Op, _: DType) -> bool {
        true
    }

    fn supports_fused(&self, _: FusedOp) -> bool {
        true
    }

    fn has_weight(&self, _: &WeightRef) -> bool {
        true
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        let id = BufferId(self.buffers.len() as u32);
        match self.spare.get_mut(&bytes).and_then(Vec::pop) {
            Some(spare) => Ok(BufferId(spare)),
            None => {
                self.buffers.push(vec![GARBAGE; bytes / 4]);
                Ok(id)
            }
        }
    }

    fn free(&mut self, buffer: BufferId) {
        let words = &mut self.buffers[buffer.0 as usize];
        words.fill(GARBAGE);
        self.spare.entry(words.len() * 4).or_default().push(buffer.0);
    }

    fn pool_bytes(&self) -> usize {
        self.buffers.iter().map(|words| words.len() * 4).sum()
    }

    fn write(&mut self, buffer: BufferId, offset: usize, bytes: &[u8]) -> Result<(), BackendError> {
        let words = &mut self.buffers[buffer.0 as usize];
        bytemuck::cast_slice_mut::<u32, u8>(words)[offset..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, buffer: BufferId, offset: usize, out: &mut [u8]) -> Result<(), BackendError> {
        let words = &self.buffers[buffer.0 as usize];
        out.copy_from_slice(&bytemuck::cast_slice::<u32, u8>(words)[offset..][..out.len()]);
        Ok(())
    }

    fn alloc_kv(&mut self, _: u32, _: KvShape) -> Result<(), BackendError> {
        Ok(())
    }

    fn copy_cells(&mut self, _: usize, _: usize, _: usize) -> Result<(), BackendError> {
        Ok(())
    }

    fn execute_node(&mut self, call: &NodeCall<'_>) -> Result<(), BackendError> {
        if self.fail_at.as_deref() == Some(&call.node.name) {
            return Err(BackendError::OutOfMemory { backend: "arithmetic", bytes: 5, what: "scratch" });
        }
        let result = self.compute(call);
        let Slot::Buffer { id, offset_bytes } = call.out.slot else { panic!("no KV regions here") };
        let words = &mut self.buffers[id.0 as usize][offset_bytes / 4..][..result.len()];
        words.copy_from_slice(bytemuck::cast_slice(&result));
        Ok(())
    }
}
